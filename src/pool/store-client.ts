import { spawn } from "node:child_process";
import type { StoreConfig } from "../config/store-config.ts";
import { MooncakeKvError } from "../errors.ts";
import { canConnect, parseHostPort } from "./ports.ts";

/**
 * The wheel's Python client in a child process that lives for one question. Only what the master's HTTP interface cannot do
 * goes through it: reading values and removing keys.
 */
const PROGRAM = `
import json, os, socket, sys
request = json.load(sys.stdin)
def local_address(host, port):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((host, port))
        return probe.getsockname()[0]
from mooncake.store import MooncakeDistributedStore
store = MooncakeDistributedStore()
name = request["hostname"] or local_address(request["masterHost"], request["masterPort"])
code = store.setup(name, request["metadataServer"], 0, 64 << 20, request["protocol"], request["deviceName"], request["master"], tenant_id=request["tenantId"])
answer = {"setup": code}
if code == 0:
    if request["action"] == "values":
        def read(key):
            size = store.get_size(key)
            # A value is fetched whole, so its size is asked for first.
            value = store.get(key) if 0 < size <= request["valueBytesMax"] else b""
            return {"size": size, "text": value.decode("utf-8", "replace") if value else None}
        answer["values"] = {key: read(key) for key in request["keys"]}
    elif request["action"] == "removeMatching":
        answer["removed"] = store.remove_by_regex(request["pattern"], request["force"])
    else:
        answer["removed"] = store.remove_all(request["force"])
print("answer " + json.dumps(answer), flush=True)
store.close()
`;

export type StoreQuestion =
  /** Values of more than `valueBytesMax` are not read. */
  | {
      readonly action: "values";
      readonly keys: readonly string[];
      readonly valueBytesMax: number;
    }
  | { readonly action: "removeMatching"; readonly pattern: string; readonly force: boolean }
  | { readonly action: "removeAll"; readonly force: boolean };

export interface StoreAnswer {
  /** Of each asked key: bytes of its value, or Mooncake's negative code; `text` null when it was not read. */
  readonly values?: Readonly<
    Record<string, { readonly size: number; readonly text: string | null }>
  >;
  /** How many keys went, or Mooncake's negative code. */
  readonly removed?: number;
}

export interface StoreClientOptions {
  /** Interpreter that has the wheel. */
  readonly python: string;
  readonly store: StoreConfig;
  /** MOONCAKE_REQUESTER_LOCAL_HOSTNAME; null: this machine's address on the way to the master. */
  readonly localHostname: string | null;
  readonly timeoutMs?: number;
}

const CONNECT_TIMEOUT_MS = 3_000;
const TIMEOUT_MS = 30_000;
/** All values that a question may ask for, written as JSON with every byte escaped, are less. */
const OUTPUT_BYTES_MAX = 16 * 1024 * 1024;

/** Asks one question. Throws CLOSED or TIMEOUT when master or wheel do not answer, MISSING when the wheel does not load. */
export async function askStore(
  options: StoreClientOptions,
  question: StoreQuestion,
): Promise<StoreAnswer> {
  const { store } = options;
  const address = parseHostPort(store.masterServerAddress);
  // Against an absent master the wheel's set-up does not come back for minutes.
  if (address === null || !(await canConnect(address.host, address.port, CONNECT_TIMEOUT_MS))) {
    throw new MooncakeKvError({
      code: "CLOSED",
      field: "master_server_address",
      value: store.masterServerAddress,
      problem: "the master cannot be reached",
      remedy: "Start it (mooncake-kv pool start), or correct the address in the store's JSON.",
    });
  }
  const output = await runPython(options, {
    ...question,
    hostname: options.localHostname,
    metadataServer: store.metadataServer || "P2PHANDSHAKE",
    protocol: store.protocol,
    deviceName: store.deviceName,
    master: store.masterServerAddress,
    masterHost: address.host,
    masterPort: address.port,
    tenantId: store.tenantId,
  });
  const line = output.stdout.split("\n").find((each) => each.startsWith("answer "));
  const answer = line === undefined ? null : (JSON.parse(line.slice(7)) as StoreAnswer & Setup);
  if (answer?.setup === 0) return answer;
  const missing = output.stderr.includes("ImportError") || output.stderr.includes("ModuleNotFound");
  throw new MooncakeKvError({
    code: missing ? "MISSING" : output.timedOut ? "TIMEOUT" : "CLOSED",
    field: "the Mooncake client",
    value: answer?.setup ?? output.end,
    problem: missing
      ? "the wheel does not load"
      : output.timedOut
        ? "it did not answer in time"
        : "it could not join the pool",
    remedy: `Run \`mooncake-kv doctor\`. It wrote last:\n${output.stderr.trimEnd().split("\n").slice(-6).join("\n")}`,
  });
}

interface Setup {
  readonly setup: number;
}

interface PythonOutput {
  readonly stdout: string;
  readonly stderr: string;
  readonly timedOut: boolean;
  readonly end: string;
}

function runPython(options: StoreClientOptions, request: unknown): Promise<PythonOutput> {
  const child = spawn(options.python, ["-c", PROGRAM], { stdio: ["pipe", "pipe", "pipe"] });
  const texts = { stdout: "", stderr: "" };
  const keep = (name: "stdout" | "stderr") => (chunk: string) => {
    texts[name] = (texts[name] + chunk).slice(-OUTPUT_BYTES_MAX);
  };
  child.stdout.setEncoding("utf8").on("data", keep("stdout"));
  child.stderr.setEncoding("utf8").on("data", keep("stderr"));
  // When it ends before it has read the question, its end tells why, not the broken pipe.
  child.stdin.on("error", () => undefined);
  child.stdin.end(JSON.stringify(request));
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    child.kill("SIGKILL");
  }, options.timeoutMs ?? TIMEOUT_MS);
  return new Promise((resolve) => {
    const finish = (end: string): void => {
      clearTimeout(timer);
      resolve({ ...texts, timedOut, end });
    };
    child.once("error", (error) => finish(error.message));
    child.once("close", (code, signal) => finish(signal ?? `exit code ${code}`));
  });
}
