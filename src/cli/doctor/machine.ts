import { execFile } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { openFilesMax } from "../../config/open-files.ts";
import type { MachineFacts, RdmaDevice, WheelLibraries } from "./facts.ts";

const LDD_TIMEOUT_MS = 20_000;
const RDMA_FOLDER = "/sys/class/infiniband";

export function machineFacts(
  variables: Readonly<Record<string, string | undefined>>,
): MachineFacts {
  const memory = readText("/proc/meminfo");
  const number = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(memory)?.[1] ?? 0);
  return {
    nodeVersion: process.versions.node,
    debian: existsSync("/etc/debian_version"),
    root: process.getuid?.() === 0,
    lockedMemoryBytesMax: lockedMemory(readText("/proc/self/limits")),
    openFilesMax: openFilesMax(),
    hugepagesTotal: number("HugePages_Total"),
    hugepagesFree: number("HugePages_Free"),
    hugepageBytes: number("Hugepagesize") * 1024,
    hugepagesWanted: (variables["MC_STORE_USE_HUGEPAGE"] ?? "") !== "",
  };
}

/** The soft limit out of /proc/self/limits; null: unlimited. */
export function lockedMemory(limits: string): number | null {
  const soft = /^Max locked memory\s+(\S+)/m.exec(limits)?.[1];
  return soft === undefined || soft === "unlimited" ? null : Number(soft);
}

/** The kernel's RDMA devices with the state of each port. */
export function rdmaDevices(folder: string = RDMA_FOLDER): RdmaDevice[] {
  return names(folder).map((name) => ({
    name,
    portStates: names(join(folder, name, "ports")).map((port) =>
      // "4: ACTIVE"
      readText(join(folder, name, "ports", port, "state"))
        .replace(/^\d+:\s*/, "")
        .trim(),
    ),
  }));
}

/** What the loader does not find for the wheel's programs and modules. */
export function wheelLibraries(mooncakeFolder: string): Promise<WheelLibraries> {
  const files = names(mooncakeFolder)
    .filter(
      (name) => name.endsWith(".so") || name === "mooncake_master" || name === "mooncake_client",
    )
    .map((name) => join(mooncakeFolder, name));
  return new Promise((resolve) => {
    const options = { timeout: LDD_TIMEOUT_MS, maxBuffer: 8 * 1024 * 1024 };
    execFile("ldd", files, options, (error, stdout, stderr) => {
      const output = `${stdout}\n${stderr}`;
      // ldd fails for a file that is not linked dynamically; what it says of the others counts all the same.
      if (stdout === "" && error !== null)
        resolve({ missing: [], unknown: `ldd: ${error.message.split("\n")[0]}` });
      else resolve({ missing: missingLibraries(output), unknown: null });
    });
  });
}

/** Names in ldd's output: "libnuma.so.1 => not found", and "version `GLIBC_2.38' not found". */
export function missingLibraries(output: string): string[] {
  const absent = [...output.matchAll(/^\s*(\S+) => not found/gm)].map(([, name]) => name ?? "");
  const old = [...output.matchAll(/version `([^']+)' not found/g)].map(([, name]) => name ?? "");
  return [...new Set([...absent, ...old])].toSorted();
}

function names(folder: string): string[] {
  try {
    return readdirSync(folder).toSorted();
  } catch {
    return [];
  }
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
