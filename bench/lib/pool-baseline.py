"""The wheel's own client, called as vLLM's connector calls it; one JSON request a line, one JSON answer a line.

Only the call into the store is timed: lists of keys, addresses and sizes are made before."""
import ctypes
import json
import mmap
import os
import sys
import time

from mooncake.store import MooncakeDistributedStore, ReplicateConfig

answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)
master, region_bytes = sys.argv[1], int(sys.argv[2])
store = MooncakeDistributedStore()
code = store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 64 << 20, "tcp", "", master)
memory = mmap.mmap(-1, region_bytes)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
ctypes.memset(address, 7, region_bytes)
code = code or store.register_buffer(address, region_bytes)
config = ReplicateConfig()
answers.write(json.dumps({"code": code}) + "\n")


def transfer(request):
    keys, segments, size = request["keys"], request["segments"], request["bytes"]
    count = len(keys)
    places = [
        [address + (segment * count + block) * size for segment in range(segments)]
        for block in range(count)
    ]
    sizes = [[size] * segments for _ in range(count)]
    began = time.perf_counter_ns()
    if request["do"] == "put":
        results = store.batch_put_from_multi_buffers(keys, places, sizes, config)
        good = all(result == 0 for result in results)
    else:
        results = store.batch_get_into_multi_buffers(keys, places, sizes)
        good = all(result == segments * size for result in results)
    return {"nanoseconds": time.perf_counter_ns() - began, "good": good, "results": results[:3]}


def exists(request):
    began = time.perf_counter_ns()
    results = store.batch_is_exist(request["keys"])
    return {
        "nanoseconds": time.perf_counter_ns() - began,
        "good": all(result == 1 for result in results),
        "results": results[:3],
    }


def clear(_request):
    store.remove_all(True)
    return {"nanoseconds": 0, "good": True, "results": []}


actions = {"put": transfer, "get": transfer, "exists": exists, "clear": clear}
for line in sys.stdin:
    request = json.loads(line)
    answers.write(json.dumps(actions[request["do"]](request)) + "\n")
os._exit(0)
