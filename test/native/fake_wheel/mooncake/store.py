"""Stands in for Mooncake's package: stores whose transfers go as the test says, the one that is given up until its store is closed."""
import ctypes
import threading
import time
from types import SimpleNamespace

OK, TRANSFER_FAIL, EXISTS, IN_HAND, LEASED, NOT_FOUND = 0, -800, -705, -600, -706, -704
LATE_BYTE, RIGHT_BYTE = 0xEE, 0x11
# Of a transfer, then the call returns without ending it. The wheel's own is 60 s.
GIVES_UP_AFTER_SECONDS = 0.3

lock = threading.Lock()
stores, plans, addresses, told, counts, value_bytes = [], [], [], [], {}, {}
# Keys: of values that were put in steps, of puts that are under way, under a reader's lease, asked for.
stored, started, leased, asked = set(), set(), set(), []
health = OK
may_close, may_return = threading.Event(), threading.Event()


def begin(_):
    """A test begins: nothing is left of the one before."""
    for each in (stores, plans, addresses, told, value_bytes, stored, started, leased, asked):
        each.clear()
    counts.update(closes=0, misuses=0, lateTransfers=0, transfers=0, waiting=0, steps=0, wrongOffsets=0)
    may_close.set()
    may_return.clear()
    return set_health(OK)


def plan(how):
    """How the next transfer that nobody has planned yet goes: right, fail, give up, give up when told, wait."""
    plans.append(how)
    return OK


def tell(replicas):
    """What the next question for replicas that nobody has planned yet is told of every key: texts as Replica takes them, or nothing."""
    told.append(replicas.split())
    return OK


def hold(key):
    """A value of another client, put without steps."""
    with lock:
        stored.add(key)
    return OK


def lease(key):
    leased.add(key)
    return OK


def end_leases(_):
    leased.clear()
    return OK


def take_in_hand(key):
    """Another thread's put in steps has begun."""
    started.add(key)
    return OK


def drop(key):
    with lock:
        stored.discard(key)
    return OK


def is_stored(key):
    return int(key in stored)


def keys_like(part):
    with lock:
        return sum(part in key for key in stored)


def times_asked(key):
    with lock:
        return asked.count(key)


def let_close(yes):
    may_close.set() if yes else may_close.clear()
    return OK


def let_return(yes):
    may_return.set() if yes else may_return.clear()
    return OK


def set_health(code):
    global health
    health = code
    return OK


def count(name):
    with lock:
        return len(stores) if name == "stores" else counts[name]


def times_used(nth):
    """How many transfers used the memory that the nth one began with."""
    with lock:
        return addresses.count(addresses[nth])


def add(name, number=1):
    with lock:
        counts[name] += number


class Replica:
    """One of "memory:OWNER:ADDRESS:BYTES", "disk:FILE:BYTES", "local_disk"; with "writing:" in front while it is written."""

    def __init__(self, text):
        self.status = 2 if text.startswith("writing:") else 3
        self.kind, *self.where = text.removeprefix("writing:").split(":")

    def is_memory_replica(self):
        return self.kind == "memory"

    def is_disk_replica(self):
        return self.kind == "disk"

    def is_local_disk_replica(self):
        return self.kind == "local_disk"

    def get_memory_descriptor(self):
        owner, address, size = self.where
        buffer = SimpleNamespace(transport_endpoint=owner, buffer_address=int(address), size=int(size))
        return SimpleNamespace(buffer_descriptor=buffer)

    def get_disk_descriptor(self):
        path, size = self.where
        return SimpleNamespace(file_path=path, object_size=int(size))


class ReplicateConfig:
    group_ids = []
    preferred_segment = ""


class Call:
    """A call into a store: none may be made in one that is being closed, nor may one be closed under it."""

    def __init__(self, store):
        self.store = store

    def __enter__(self):
        with lock:
            self.store.calls += 1
            counts["misuses"] += self.store.is_closing

    def __exit__(self, *raised):
        with lock:
            self.store.calls -= 1


class MooncakeDistributedStore:
    def __init__(self):
        self.calls = 0
        self.is_closing = False
        self.closed = threading.Event()
        self.threads = []

    def setup(self, *given, **named):
        with lock:
            stores.append(self)
        return OK

    def close(self):
        with lock:
            counts["misuses"] += self.calls + self.is_closing
            self.is_closing = True
        may_close.wait()
        self.closed.set()
        for thread in self.threads:
            thread.join()
        add("closes")
        return OK

    def transfer(self, pieces, late):
        """Answers OK or TRANSFER_FAIL."""
        with lock:
            how = plans.pop(0) if plans else "right"
            addresses.append(pieces[0][0])
            counts["transfers"] += 1
        if how == "wait" or how == "give up when told":
            add("waiting")
            may_return.wait()
            add("waiting", -1)
        if how == "fail":
            return TRANSFER_FAIL
        if how.startswith("give up"):
            self.threads.append(threading.Thread(target=self.go_on, args=(pieces, late), daemon=True))
            self.threads[-1].start()
            time.sleep(GIVES_UP_AFTER_SECONDS)
            return TRANSFER_FAIL
        return OK

    def go_on(self, pieces, late):
        while not self.closed.is_set():
            late(pieces)
            add("lateTransfers")
            time.sleep(0.001)

    @staticmethod
    def write(pieces, byte=LATE_BYTE):
        for address, size in pieces:
            ctypes.memset(address, byte, size)

    @staticmethod
    def read(pieces):
        for address, size in pieces:
            ctypes.string_at(address, size)

    def batch_get_into_multi_buffers(self, keys, addresses, sizes):
        with Call(self):
            pieces = [piece for of_value in zip(addresses, sizes) for piece in zip(*of_value)]
            value_bytes.update(zip(keys, map(sum, sizes)))
            if self.transfer(pieces, self.write) != OK:
                return [TRANSFER_FAIL for key in keys]
            self.write(pieces, RIGHT_BYTE)
            return [sum(of_value) for of_value in sizes]

    def batch_put_from_multi_buffers(self, keys, addresses, sizes, config):
        with Call(self):
            pieces = [piece for of_value in zip(addresses, sizes) for piece in zip(*of_value)]
            result = self.transfer(pieces, self.read)
            return [result for key in keys]

    def batch_get_replica_desc(self, keys):
        with Call(self):
            with lock:
                texts = told.pop(0) if told else ["memory:owner:4096:4"]
            return {key: [Replica(text) for text in texts] for key in keys if texts}

    def batch_put_session_start(self, keys, sizes, config):
        with Call(self), lock:
            results = [EXISTS if key in stored else IN_HAND if key in started else OK for key in keys]
            started.update(key for key, result in zip(keys, results) if result == OK)
            counts["steps"] += 1
            return results

    def batch_put_from_multi_buffer_ranges(self, keys, addresses, sizes, offsets):
        with Call(self):
            pieces = [piece for of_value in zip(addresses, sizes) for piece in zip(*of_value)]
            result = self.transfer(pieces, self.read)
            with lock:
                counts["wrongOffsets"] += any(
                    at != sum(of_value[:nth])
                    for of_value, places in zip(sizes, offsets)
                    for nth, at in enumerate(places)
                )
            return [sum(of_value) if result == OK else result for of_value in sizes]

    def batch_put_session_end(self, keys):
        with Call(self), lock:
            counts["misuses"] += any(key not in started for key in keys)
            started.difference_update(keys)
            stored.update(keys)
            return [OK for key in keys]

    def batch_put_session_revoke(self, keys):
        with Call(self), lock:
            counts["misuses"] += any(key not in started for key in keys)
            started.difference_update(keys)
            return [OK for key in keys]

    def batch_is_exist(self, keys):
        with Call(self), lock:
            asked.extend(keys)
            return [int(key in stored) for key in keys]

    def batch_remove(self, keys):
        with Call(self), lock:
            results = [LEASED if key in leased else OK if key in stored else NOT_FOUND for key in keys]
            stored.difference_update(key for key, result in zip(keys, results) if result == OK)
            return results

    def put(self, key, value, config):
        with Call(self):
            return self.transfer([(0, 0)], lambda pieces: None)

    def get(self, key):
        with Call(self):
            return b"four" if self.transfer([(0, 0)], lambda pieces: None) == OK else b""

    def get_size(self, key):
        with Call(self):
            return value_bytes.get(key, 4)

    def health_check(self):
        with Call(self):
            return health

    def is_exist(self, key):
        with Call(self):
            return 0

    def register_buffer(self, address, size):
        with Call(self):
            return OK

    def unregister_buffer(self, address):
        with Call(self):
            return OK

    def unused(self, *given):
        raise NotImplementedError

    remove = remove_by_regex = remove_all = unused
