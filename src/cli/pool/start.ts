import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { readEnvironment } from "../../config/environment.ts";
import { fail } from "../../errors.ts";
import { requireWheel } from "../../store/mooncake/interpreter.ts";
import { describe } from "../../pool/managed-process.ts";
import { startPool } from "../../pool/pool.ts";
import type { RunningPool } from "../../pool/pool.ts";
import { makePoolFolder, removePoolFolder } from "../../pool/pool-folder.ts";
import { poolsFolder, recordPool } from "../../pool/state.ts";
import type { PoolRecord } from "../../pool/state.ts";
import { detach, reportFor } from "./report.ts";
import type { PoolReport } from "./report.ts";

export interface StartFlags {
  readonly port: number;
  readonly metricsPort: number;
  readonly owner?: boolean;
  readonly owners?: number;
  readonly memory: number;
  readonly localBuffer: number;
  readonly ssd?: string;
  readonly offload?: boolean;
  readonly staging?: number;
  readonly protocol: string;
  readonly device: string;
  readonly masterFlag?: Readonly<Record<string, string>>;
  readonly config?: string;
  readonly detach?: boolean;
  readonly json?: boolean;
}

/** Starts the pool and keeps it until SIGINT or SIGTERM; with --detach another process keeps it. */
export async function start(flags: StartFlags): Promise<void> {
  checkFlags(flags);
  if (flags.detach === true) {
    await detach(process.argv.slice(2), flags.json === true);
    return;
  }
  const report = reportFor(flags.json === true);
  try {
    await keep(flags, report);
  } catch (error) {
    report.failed(error);
  }
}

async function keep(flags: StartFlags, report: PoolReport): Promise<void> {
  // Before anything is started, so that a signal in the middle leaves no process behind.
  const asked = untilAsked(report);
  const wheel = await requireWheel({
    python: readEnvironment(process.env).python,
    workingFolder: process.cwd(),
    searchPath: process.env["PATH"] ?? "",
  });
  const folder = makePoolFolder(poolsFolder(process.env));
  try {
    const pool = await startPool({
      mooncakeFolder: wheel.mooncakeFolder,
      port: flags.port,
      metricsPort: flags.metricsPort,
      owners: ownerCount(flags),
      memoryBytes: flags.memory,
      localBufferBytes: flags.localBuffer,
      protocol: flags.protocol,
      deviceName: flags.device,
      ssdFolder: flags.ssd ?? (flags.offload === true ? join(folder.path, "ssd") : null),
      stagingBytes: flags.staging,
      masterFlags: flags.masterFlag ?? {},
      logFolder: join(folder.path, "logs"),
      heldDescriptor: folder.lockDescriptor,
      onProgress: (text) => report.progress(text),
    });
    try {
      await keepRunning(pool, folder.path, flags, report, asked);
    } finally {
      await pool.stop();
    }
  } finally {
    removePoolFolder(folder.path);
  }
}

async function keepRunning(
  pool: RunningPool,
  folder: string,
  flags: StartFlags,
  report: PoolReport,
  asked: Promise<string>,
): Promise<void> {
  const record = recordPool(folder, pool);
  if (flags.config !== undefined) writeConfig(flags.config, record);
  report.ready(record, flags.config === undefined ? record.storePath : resolve(flags.config));
  const end = await Promise.race([asked, pool.failed]);
  if (typeof end === "string") {
    report.progress(`${end}: stopping the pool`);
    return;
  }
  fail(
    "CLOSED",
    end.name,
    describe(end.end),
    "ended by itself",
    `The pool is stopped. It wrote last:\n${end.tail}`,
  );
}

/** Resolves with what asked for the end: a signal, or the terminal that started a detached pool and went away too early. */
function untilAsked(report: PoolReport): Promise<string> {
  return new Promise((end) => {
    process.once("SIGINT", end);
    process.once("SIGTERM", end);
    process.once("SIGHUP", end);
    report.onAbandoned(() => end("the terminal is gone"));
  });
}

function ownerCount(flags: StartFlags): number {
  const implied = flags.owner === true || flags.ssd !== undefined || flags.offload === true;
  return flags.owners ?? (implied ? 1 : 0);
}

function checkFlags(flags: StartFlags): void {
  if (flags.protocol !== "tcp" && flags.protocol !== "rdma")
    fail(
      "INVALID_VALUE",
      "--protocol",
      flags.protocol,
      "is not a known protocol",
      "Use tcp or rdma.",
    );
  if (flags.memory <= 0)
    fail(
      "INVALID_VALUE",
      "--memory",
      flags.memory,
      "must be above 0",
      "Give for example --memory 1GB.",
    );
  if (flags.localBuffer <= 0)
    fail(
      "INVALID_VALUE",
      "--local-buffer",
      flags.localBuffer,
      "must be above 0",
      "Give for example --local-buffer 256MB.",
    );
}

function writeConfig(path: string, record: PoolRecord): void {
  try {
    writeFileSync(path, `${JSON.stringify(record.store, null, 2)}\n`);
  } catch (cause) {
    fail(
      "INVALID_VALUE",
      "--config",
      path,
      `the file cannot be written: ${String(cause)}`,
      "Name another file.",
    );
  }
}

/** Collects repeated `--master-flag name=value`. */
export function flagValue(
  text: string,
  before: Readonly<Record<string, string>> = {},
): Record<string, string> {
  const [, name, value] = /^(?:--)?([a-z_]+)=(.*)$/.exec(text) ?? [];
  if (name !== undefined && value !== undefined) return { ...before, [name]: value };
  return fail(
    "INVALID_VALUE",
    "--master-flag",
    text,
    "is not name=value",
    "Give for example --master-flag default_kv_lease_ttl=2000.",
  );
}
