/**
 * Goal: a process that ends without closing its Mooncake engine ends with its own exit code and all of its output, in bounded time,
 * whatever the wheel's exit handler would do with stores that are open, hang, or are being set up.
 * Method: a package called `mooncake` whose exit handler crashes while a store is open, as the wheel's does after a transfer over RDMA was
 * lost, in a process of its own for each way to end. The port of the master only accepts connections.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo, Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { packageRoot } from "../../src/worker-entry.ts";
import { startChild } from "./support/child.ts";
import { engineOptions, wheel } from "./support/mooncake.ts";

const STORE = `
import ctypes, os, signal, time
libc = ctypes.CDLL(None)
behaviour = os.environ["FAKE_WHEEL"]
stores_open = 0

def note(text):
    with open(os.environ["FAKE_WHEEL_NOTES"], "a") as notes:
        notes.write(text + "\\n")

@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)
def at_exit(status, unused):
    note("handler")
    if stores_open > 0:
        os.kill(os.getpid(), signal.SIGSEGV)

class ReplicateConfig:
    group_ids = []
    preferred_segment = ""
class MooncakeDistributedStore:
    def setup(self, *given, **named):
        global stores_open
        stores_open += 1
        libc.on_exit(at_exit, None)
        # Stays in the buffer of C's standard output, which is a pipe.
        libc.printf(b"buffered ")
        if behaviour == "set-up hangs": time.sleep(600)
        return 0
    def close(self):
        global stores_open
        note("close")
        if behaviour == "close hangs": time.sleep(600)
        stores_open -= 1
        return 0
    def get_size(self, key):
        if behaviour == "forks":
            process = os.fork()
            if process == 0: libc.exit(3)
            note("forked %d" % os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
        # Some libraries register theirs only when they are used.
        libc.on_exit(at_exit, None)
        note("late handler")
        if key == "hangs": time.sleep(600)
        return 4
    def health_check(self): return 0
    def register_buffer(self, address, size): return 0
    def unregister_buffer(self, address): return 0
    def is_exist(self, key): return 0
    def unused(self, *given): return 0
    batch_is_exist = batch_put_from_multi_buffers = batch_get_into_multi_buffers = batch_get_replica_desc = unused
    batch_remove = get = put = remove = remove_by_regex = remove_all = unused
`;
const folder = mkdtempSync(join(tmpdir(), "mooncake-kv-exit-"));
let python = "";
let master: Server;

beforeAll(async () => {
  master = createServer((socket) => socket.on("error", () => undefined));
  await new Promise<void>((resolve) => master.listen(0, "127.0.0.1", resolve));
  const path = join(folder, "venv");
  execFileSync(wheel.path, ["-m", "venv", "--without-pip", path]);
  python = join(path, "bin", "python3");
  const ask = "import sysconfig; print(sysconfig.get_path('purelib'))";
  const packages = execFileSync(python, ["-c", ask], { encoding: "utf8" }).trim();
  mkdirSync(join(packages, "mooncake"));
  writeFileSync(join(packages, "mooncake", "__init__.py"), "");
  writeFileSync(join(packages, "mooncake", "store.py"), STORE);
});
afterAll(() => {
  master.close();
  rmSync(folder, { recursive: true });
});

async function endOf(how: string, behaviour = "") {
  const { port } = master.address() as AddressInfo;
  const options = engineOptions(`127.0.0.1:${port}`, { pythonExecutable: python });
  const script = join(packageRoot(), "test/integration/support/mooncake-exit.mjs");
  const notes = join(folder, `${how} ${behaviour}`);
  writeFileSync(notes, "");
  const child = startChild(process.execPath, [script, JSON.stringify(options), how], {
    environment: { FAKE_WHEEL: behaviour, FAKE_WHEEL_NOTES: notes },
  });
  const { code, signal } = await child.exit;
  return {
    code,
    signal,
    output: child.output(),
    errors: child.errors(),
    noted: readFileSync(notes, "utf8"),
  };
}
const IN_TIME = { code: 7, signal: null, errors: "" };
const OUT_OF_TIME = {
  code: 7,
  signal: null,
  errors: expect.stringContaining("could not be closed in time") as string,
};

test.each(["open", "natural", "worker"])(
  "%s: closed first, then the wheel's handler runs",
  async (how) => {
    const ended = await endOf(how);
    expect(ended).toMatchObject(IN_TIME);
    expect(ended.noted).toBe("close\nhandler\n");
    expect([ended.output.includes("bye\n"), ended.output.includes("buffered ")]).toEqual([
      true,
      true,
    ]);
  },
);

test("an engine that was closed costs nothing: only the wheel's handler runs", async () => {
  const ended = await endOf("closed");
  expect(ended).toMatchObject(IN_TIME);
  expect(ended.noted).toBe("close\nhandler\n");
});

test.concurrent.each([
  ["open", "close hangs", "close\n"],
  // A store is never closed under a call; handlers that came late do not run either.
  ["call", "", "late handler\n"],
  // The stores of a forked process are its parent's.
  ["call", "forks", "forked 3\nlate handler\n"],
  ["opening", "set-up hangs", ""],
])("%s, %s: the process ends without the wheel's handler", async (how, behaviour, noted) => {
  const ended = await endOf(how, behaviour);
  expect(ended).toMatchObject(OUT_OF_TIME);
  expect(ended.noted).toBe(noted);
  expect([ended.output.includes("bye\n"), ended.output.includes("buffered ")]).toEqual([
    true,
    true,
  ]);
});
