"""The same block hashes by hashlib and pickle or cbor2, as vLLM makes them. Reads one JSON request a line, answers in one line."""

import hashlib
import json
import pickle
import sys
import time

import cbor2

DIGESTS = {
    "sha256": lambda value: hashlib.sha256(pickle.dumps(value, protocol=5)).digest(),
    "sha256_cbor": lambda value: hashlib.sha256(cbor2.dumps(value, canonical=True)).digest(),
}


def hash_blocks(tokens, block_size, parent, digest_of):
    digests = []
    for start in range(0, len(tokens) - block_size + 1, block_size):
        parent = digest_of((parent, tuple(tokens[start : start + block_size]), None))
        digests.append(parent)
    return digests


for line in sys.stdin:
    request = json.loads(line)
    digest_of = DIGESTS[request["algorithm"]]
    parent = bytes.fromhex(request["parent"])
    start = time.perf_counter_ns()
    digests = hash_blocks(request["tokens"], request["blockSize"], parent, digest_of)
    nanoseconds = time.perf_counter_ns() - start
    print(json.dumps({"nanoseconds": nanoseconds, "last": digests[-1].hex()}), flush=True)
