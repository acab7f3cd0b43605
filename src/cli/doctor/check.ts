import type { EngineKind } from "../../config/connector-config.ts";
import type { MachineFacts } from "./facts.ts";

export type CheckStatus = "ok" | "warn" | "fail";

/** One thing that was looked at. */
export interface Check {
  readonly name: string;
  readonly status: CheckStatus;
  /** What was found, in words. */
  readonly found: string;
  /** The command, or where there is none the change, that mends it; null when nothing is wrong. */
  readonly fix: string | null;
}

/** A finding before it is known whether the configured engine needs the thing. */
export interface Finding extends Check {
  /** Engines that do not work without it; empty: none, so that a fault is never more than a warning. */
  readonly neededBy: readonly EngineKind[];
}

export const EVERY_ENGINE: readonly EngineKind[] = ["local", "mooncake"];
export const MOONCAKE_ONLY: readonly EngineKind[] = ["mooncake"];
export const NO_ENGINE: readonly EngineKind[] = [];

export function ok(name: string, found: string): Finding {
  return { name, status: "ok", found, fix: null, neededBy: NO_ENGINE };
}

export function warn(name: string, found: string, fix: string): Finding {
  return { name, status: "warn", found, fix, neededBy: NO_ENGINE };
}

export function fault(
  name: string,
  found: string,
  fix: string,
  neededBy: readonly EngineKind[],
): Finding {
  return { name, status: "fail", found, fix, neededBy };
}

/** A fault of what the engine does not need is a warning that says so. */
export function settle(finding: Finding, engine: EngineKind): Check {
  const { name, status, found, fix, neededBy } = finding;
  if (status !== "fail" || neededBy.includes(engine)) return { name, status, found, fix };
  return { name, status: "warn", found: `${found} (the ${engine} engine does not need it)`, fix };
}

/** The command that installs Debian packages here, or what to install elsewhere. */
export function installCommand(
  packages: readonly string[],
  machine: Pick<MachineFacts, "debian" | "root">,
): string {
  const names = packages.join(" ");
  if (!machine.debian)
    return `install with your system's package manager what Debian calls ${names}`;
  return `${machine.root ? "" : "sudo "}apt-get install -y ${names}`;
}
