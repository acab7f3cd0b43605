"""The wheel's own client, called as vLLM's connector calls it. One JSON request a line on stdin, one JSON answer a line on stdout."""
import ctypes
import json
import mmap
import os
import sys

from mooncake.store import MooncakeDistributedStore, ReplicateConfig

BYTES = 8 << 20
answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)

store = MooncakeDistributedStore()
code = store.setup("127.0.0.1", "P2PHANDSHAKE", int(sys.argv[2]), 16 << 20, "tcp", "", sys.argv[1])
memory = mmap.mmap(-1, BYTES)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
code = code or store.register_buffer(address, BYTES)
answers.write(json.dumps({"code": code, "hostname": store.get_hostname()}) + "\n")


def placing(group):
    config = ReplicateConfig()
    if group is not None:
        config.group_ids = [group]
    return config


def place(sizes):
    """Segments one page apart, as layers of a KV cache lie apart."""
    at, starts = 0, []
    for size in sizes:
        starts.append(at)
        at += (size + 4095) // 4096 * 4096 + 4096
    return starts


def answer(request):
    starts = place(request.get("sizes", []))
    addresses, sizes = [address + start for start in starts], request.get("sizes", [])
    if request["do"] == "put":
        value, at = bytes.fromhex(request["value"]), 0
        for start, size in zip(starts, sizes):
            memory[start : start + size] = value[at : at + size]
            at += size
        return store.batch_put_from_multi_buffers([request["key"]], [addresses], [sizes], placing(request.get("group")))[0]
    if request["do"] == "get":
        result = store.batch_get_into_multi_buffers([request["key"]], [addresses], [sizes])[0]
        value = b"".join(memory[start : start + size] for start, size in zip(starts, sizes))
        return {"result": result, "value": value.hex()}
    if request["do"] == "exist":
        return store.batch_is_exist(request["keys"])
    if request["do"] == "remove":
        return store.remove(request["key"], True)
    if request["do"] == "removeAll":
        return store.remove_all(True)
    if request["do"] == "store":
        # Values of one letter; others may hold the room that was just made free.
        memory[: request["bytes"]] = bytes([request["letter"]]) * request["bytes"]
        return [store.put_from(key, address, request["bytes"]) for key in request["keys"]]
    if request["do"] == "replace":
        memory[: request["bytes"]] = bytes([request["letter"]]) * request["bytes"]
        answers = []
        for key in request["keys"]:
            # A value that is not complete yet, or has no checksum, is nobody's to tell from another.
            known = store.is_exist(key + request["mark"]) == 1
            removed = store.remove(key, True) if known else -1
            answers.append(store.put_from(key, address, request["bytes"]) if removed == 0 else removed)
        return answers
    raise ValueError(request["do"])


for line in sys.stdin:
    answers.write(json.dumps({"answer": answer(json.loads(line))}) + "\n")
os._exit(0)
