import { execFile, spawnSync } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import type { ConfigWarning } from "../../config/warnings.ts";
import { MooncakeKvError } from "../../errors.ts";
import { packageRoot } from "../../worker-entry.ts";

/** What one Python interpreter says of itself. */
export interface Interpreter {
  /** As it was found; what to run. */
  readonly path: string;
  /** "MOONCAKE_PYTHON", ".venv" or "PATH". */
  readonly source: string;
  /** "3.11.7" */
  readonly version: string;
  /** Its shared library, which the engine opens; null: it has none. */
  readonly sharedLibrary: string | null;
  /** Folder of the `mooncake` package; null: not installed there. */
  readonly mooncakeFolder: string | null;
  readonly wheelName: string | null;
  readonly wheelVersion: string | null;
  readonly hasXxhash: boolean;
}

/** An interpreter that was named or found, but does not run. */
export interface BrokenInterpreter {
  readonly path: string;
  readonly source: string;
  readonly problem: string;
}

const PROBE_TIMEOUT_MS = 20_000;

/** Looks packages up without importing them: an import of the store loads its libraries, which may be what is wrong. */
const PROBE = `
import importlib.util as util, json, os, sys, sysconfig
try:
    from importlib import metadata
except ImportError:
    metadata = None
def folder(name):
    spec = util.find_spec(name)
    return list(spec.submodule_search_locations)[0] if spec and spec.submodule_search_locations else None
def version(name):
    try:
        return metadata.version(name) if metadata else None
    except Exception:
        return None
wheel = next((name for name in ("mooncake-transfer-engine", "mooncake-transfer-engine-non-cuda") if version(name)), None)
variable = sysconfig.get_config_var
names = [variable("INSTSONAME"), variable("LDLIBRARY"), "libpython%d.%d.so.1.0" % sys.version_info[:2]]
folders = [variable("LIBDIR") or "", os.path.join(variable("LIBDIR") or "", variable("MULTIARCH") or "")]
paths = [os.path.join(f, n) for n in names if n and ".so" in n for f in folders]
print(json.dumps({
    "version": "%d.%d.%d" % sys.version_info[:3],
    "sharedLibrary": next((path for path in paths if os.path.exists(path)), None),
    "mooncakeFolder": folder("mooncake"),
    "wheelName": wheel,
    "wheelVersion": version(wheel) if wheel else None,
    "hasXxhash": util.find_spec("xxhash") is not None,
}))
`;

export interface InterpreterSearch {
  /** MOONCAKE_PYTHON; null when unset. */
  readonly python: string | null;
  /** Folder whose `.venv` is looked at before the package's own. */
  readonly workingFolder: string;
  /** PATH */
  readonly searchPath: string;
}

/**
 * The interpreter by the rule: MOONCAKE_PYTHON alone when it is set; else the first of `.venv` here, `.venv` of this package
 * and python3 on PATH that has the Mooncake wheel; else the first that runs. null: there is none.
 */
export async function findInterpreter(
  search: InterpreterSearch,
): Promise<Interpreter | BrokenInterpreter | null> {
  let best: Interpreter | BrokenInterpreter | null = null;
  for (const { path, source } of candidates(search)) {
    best = better(best, await probe(path, source));
    if (hasWheel(best)) break;
  }
  return best;
}

/** `findInterpreter` for callers that cannot wait: holds the thread some 50 ms an interpreter. */
export function findInterpreterNow(
  search: InterpreterSearch,
): Interpreter | BrokenInterpreter | null {
  return choose(
    candidates(search).map(
      ({ path, source }) =>
        () =>
          probeNow(path, source),
    ),
  );
}

/** The wheel's folder and its interpreter, or the error that says how to get them. */
export async function requireWheel(
  search: InterpreterSearch,
): Promise<Interpreter & { readonly mooncakeFolder: string }> {
  return wheelOf(await findInterpreter(search));
}

/** Throws MISSING unless it runs and has the wheel. */
export function wheelOf(
  found: Interpreter | BrokenInterpreter | null,
): Interpreter & { readonly mooncakeFolder: string } {
  if (found !== null && !("problem" in found) && found.mooncakeFolder !== null)
    return { ...found, mooncakeFolder: found.mooncakeFolder };
  const problem =
    found === null
      ? "no Python interpreter was found"
      : "problem" in found
        ? found.problem
        : "the Mooncake wheel is not installed for this interpreter";
  throw new MooncakeKvError({
    code: "MISSING",
    field: found?.source === "MOONCAKE_PYTHON" ? "MOONCAKE_PYTHON" : "python3",
    value: found?.path,
    problem,
    remedy: INSTALL_WHEEL,
  });
}

/** The release that this package is tested with. */
export const WHEEL_VERSION = "0.3.13.post1";
export const INSTALL_WHEEL_COMMAND = `python3 -m venv .venv && .venv/bin/python3 -m pip install mooncake-transfer-engine-non-cuda==${WHEEL_VERSION}`;
const INSTALL_WHEEL = `Run: ${INSTALL_WHEEL_COMMAND}`;

/** What is to be said of a wheel of another release than the tested one; null: nothing. Methods that it lacks end the opening. */
export function wheelWarning({
  path,
  wheelName,
  wheelVersion,
}: Pick<Interpreter, "path" | "wheelName" | "wheelVersion">): ConfigWarning | null {
  if (wheelVersion === WHEEL_VERSION) return null;
  const name = wheelName ?? "mooncake-transfer-engine-non-cuda";
  return {
    field: name,
    value: wheelVersion ?? undefined,
    problem: `the release of this package is not the one that this version is tested with, ${WHEEL_VERSION}`,
    remedy: `If the pool misbehaves, run: ${path} -m pip install ${name}==${WHEEL_VERSION}`,
  };
}

function candidates(search: InterpreterSearch): { path: string; source: string }[] {
  if (search.python !== null) return [{ path: search.python, source: "MOONCAKE_PYTHON" }];
  const environments = [search.workingFolder, packageRoot()].map((folder) => ({
    path: join(folder, ".venv", "bin", "python3"),
    source: ".venv",
  }));
  const onPath = search.searchPath
    .split(delimiter)
    .filter((folder) => folder !== "")
    .map((folder) => ({ path: join(folder, "python3"), source: "PATH" }));
  const seen = new Set<string>();
  const runnable = [...environments, ...onPath].filter(({ path }) => {
    if (seen.has(path) || !isExecutable(path)) return false;
    seen.add(path);
    return true;
  });
  // Of PATH only the first counts: that is the one that the user means by python3.
  const firstOnPath = runnable.find(({ source }) => source === "PATH");
  return runnable.filter((each) => each.source !== "PATH" || each === firstOnPath);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Stops at the first that has the wheel. */
function choose(
  probes: readonly (() => Interpreter | BrokenInterpreter)[],
): Interpreter | BrokenInterpreter | null {
  let best: Interpreter | BrokenInterpreter | null = null;
  for (const ask of probes) {
    best = better(best, ask());
    if (hasWheel(best)) break;
  }
  return best;
}

function better(
  best: Interpreter | BrokenInterpreter | null,
  found: Interpreter | BrokenInterpreter,
): Interpreter | BrokenInterpreter {
  const improves = hasWheel(found) || (best !== null && "problem" in best && !("problem" in found));
  return best === null || improves ? found : best;
}

function hasWheel(found: Interpreter | BrokenInterpreter): boolean {
  return !("problem" in found) && found.mooncakeFolder !== null;
}

function probeNow(path: string, source: string): Interpreter | BrokenInterpreter {
  const options = {
    timeout: PROBE_TIMEOUT_MS,
    killSignal: "SIGKILL" as const,
    encoding: "utf8" as const,
  };
  const { status, stdout, stderr, error } = spawnSync(path, ["-c", PROBE], options);
  if (error === undefined && status === 0) return said(path, source, stdout);
  const timedOut = error !== undefined && "code" in error && error.code === "ETIMEDOUT";
  const why = timedOut ? "it did not answer" : (error?.message ?? stderr.trim().split("\n").at(-1));
  return { path, source, problem: `the interpreter does not run: ${why}` };
}

function said(path: string, source: string, stdout: string): Interpreter {
  return { path, source, ...(JSON.parse(stdout) as Omit<Interpreter, "path" | "source">) };
}

function probe(path: string, source: string): Promise<Interpreter | BrokenInterpreter> {
  return new Promise((resolve) => {
    const options = { timeout: PROBE_TIMEOUT_MS, killSignal: "SIGKILL" as const };
    execFile(path, ["-c", PROBE], options, (error, stdout) => {
      if (error === null) {
        resolve(said(path, source, stdout));
        return;
      }
      const why = error.killed === true ? "it did not answer" : error.message.split("\n")[0];
      resolve({ path, source, problem: `the interpreter does not run: ${why}` });
    });
  });
}
