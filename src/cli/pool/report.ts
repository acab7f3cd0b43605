import { fork } from "node:child_process";
import { join } from "node:path";
import type { PoolRecord } from "../../pool/state.ts";
import { packageRoot } from "../../worker-entry.ts";
import { errorText } from "../error-text.ts";
import { ProgressLine } from "../progress-line.ts";

/** Where the keeper of a pool tells how it goes: the terminal, or the process that detached it. */
export interface PoolReport {
  progress(text: string): void;
  ready(record: PoolRecord, configPath: string): void;
  failed(error: unknown): void;
  /** Calls `then` when nobody waits for the pool any more although it is not ready. */
  onAbandoned(then: () => void): void;
}

type Message =
  | { readonly kind: "progress"; readonly text: string }
  | { readonly kind: "ready"; readonly record: PoolRecord; readonly configPath: string }
  | { readonly kind: "failed"; readonly text: string };

function terminalReport(json: boolean): PoolReport {
  const line = new ProgressLine(process.stderr);
  return {
    progress: (text) => line.show(text),
    ready: (record, configPath) => {
      line.clear();
      printReady(record, configPath, json);
      process.stderr.write("It runs until Ctrl-C (or SIGTERM, or `mooncake-kv pool stop`).\n");
    },
    failed: (error) => {
      line.clear();
      throw error;
    },
    onAbandoned: () => undefined,
  };
}

/** Of a detached keeper: by messages to the process that started it, which goes away when the pool is ready. */
function parentReport(): PoolReport {
  let waiting = true;
  const send = (message: Message): void => {
    if (process.connected) process.send?.(message);
  };
  return {
    progress: (text) => send({ kind: "progress", text }),
    ready: (record, configPath) => {
      waiting = false;
      send({ kind: "ready", record, configPath });
      process.disconnect();
    },
    failed: (error) => {
      send({ kind: "failed", text: errorText(error) });
      process.exitCode = 1;
      if (process.connected) process.disconnect();
    },
    onAbandoned: (then) => {
      process.once("disconnect", () => {
        if (waiting) then();
      });
    },
  };
}

/** Set for a keeper that `detach` has started: it tells its parent how it goes. */
const DETACHED = "MOONCAKE_KV_POOL_DETACHED";

export function reportFor(json: boolean): PoolReport {
  return process.env[DETACHED] === "1" && process.send !== undefined
    ? parentReport()
    : terminalReport(json);
}

/** Starts a keeper with the same arguments in a session of its own; returns when its pool is ready. */
export async function detach(args: readonly string[], json: boolean): Promise<void> {
  const line = new ProgressLine(process.stderr);
  const child = fork(
    join(packageRoot(), "dist", "cli", "main.js"),
    args.filter((arg) => arg !== "--detach"),
    {
      detached: true,
      env: { ...process.env, [DETACHED]: "1" },
      stdio: ["ignore", "ignore", "ignore", "ipc"],
    },
  );
  const last = await new Promise<Message>((resolve) => {
    child.on("message", (message: Message) => {
      if (message.kind === "progress") line.show(message.text);
      else resolve(message);
    });
    child.once("exit", (code, signal) =>
      resolve({ kind: "failed", text: `the keeper ended (${signal ?? `exit code ${code}`})` }),
    );
  });
  line.clear();
  if (child.connected) child.disconnect();
  child.unref();
  if (last.kind === "ready") {
    printReady(last.record, last.configPath, json);
    process.stderr.write(`\`mooncake-kv pool stop --port ${last.record.port}\` ends it.\n`);
  } else if (last.kind === "failed") {
    process.stderr.write(`mooncake-kv: ${last.text}\n`);
    process.exitCode = 1;
  }
}

/** The store's JSON alone on standard output, so that `> store.json` works; everything for people on standard error. */
function printReady(record: PoolRecord, configPath: string, json: boolean): void {
  const environment = variables(record, configPath);
  const { keeper, processes, port, metricsPort, segments, store, logFolder } = record;
  const full = {
    store,
    configPath,
    environment,
    port,
    metricsPort,
    segments,
    keeper,
    processes,
    logFolder,
  };
  process.stdout.write(`${JSON.stringify(json ? full : store, null, json ? 0 : 2)}\n`);
  const exports = Object.entries(environment).map(
    ([name, value]) => `export ${name}=${quoted(value)}`,
  );
  const members =
    segments.length === 0 ? "no owner: each member gives memory" : `owners ${segments.join(", ")}`;
  process.stderr.write(
    `A pool runs: master 127.0.0.1:${port}, metrics 127.0.0.1:${metricsPort}, ${members}. Its output is in ${logFolder}. To join it:\n\n` +
      `  ${exports.join("\n  ")}\n\n`,
  );
}

function variables(record: PoolRecord, configPath: string): Record<string, string> {
  const [segment] = record.segments;
  return {
    MOONCAKE_CONFIG_PATH: configPath,
    ...(segment === undefined ? {} : { MOONCAKE_PREFERRED_SEGMENT: segment }),
  };
}

function quoted(text: string): string {
  return /^[\w./:-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
