import { POOL_VERIFY_DEFAULT } from "../../config/connector-config.ts";
import type { ConnectorConfig, MooncakePoolConfig } from "../../config/connector-config.ts";
import type { ConfigWarning } from "../../config/warnings.ts";
import { MooncakeKvError } from "../../errors.ts";
import type { MooncakeEngineOptions } from "../../native/binding.ts";
import { findInterpreterNow, wheelOf, wheelWarning } from "./interpreter.ts";
import type { InterpreterSearch } from "./interpreter.ts";

type Settings = Pick<
  ConnectorConfig,
  "preferredSegment" | "enableGroupSemantics" | "storeTierLog"
> & { readonly poolVerify?: ConnectorConfig["poolVerify"] };

/** Enough that lookups, loads and saves of several jobs go on side by side; more only wait for the interpreter's lock. */
const LANES = { existsThreads: 4, getThreads: 4, putThreads: 4 };

/**
 * What the addon needs to open this process's store. Asks the interpreter about itself, which takes some 50 ms. `warn`
 * takes what works, but not for sure: a wheel of another release. Throws MISSING when
 * there is no interpreter, none with the wheel, or none with a shared library, each with the command that mends it.
 */
export function mooncakeEngineOptions(
  pool: MooncakePoolConfig,
  settings: Settings,
  workingFolder: string,
  warn?: (warning: ConfigWarning) => void,
): MooncakeEngineOptions {
  const { python, searchPath } = pool;
  const found = requirePython({ python, workingFolder, searchPath }, warn);
  return engineOptionsWith(found, pool, settings);
}

/** The same with an interpreter that is known: nothing is asked. */
export function engineOptionsWith(
  python: { readonly path: string; readonly sharedLibrary: string },
  { store, requesterLocalHostname }: Pick<MooncakePoolConfig, "store" | "requesterLocalHostname">,
  settings: Settings,
): MooncakeEngineOptions {
  return {
    kind: "mooncake",
    pythonExecutable: python.path,
    pythonLibrary: python.sharedLibrary,
    // Empty: the addon asks the routing table, as vLLM does.
    localHostname: requesterLocalHostname ?? "",
    // The address of a metadata service, or the word that there is none.
    metadataServer: store.metadataServer === "" ? "P2PHANDSHAKE" : store.metadataServer,
    globalSegmentBytes: store.globalSegmentBytes,
    localBufferBytes: store.localBufferBytes,
    protocol: store.protocol,
    deviceName: store.deviceName,
    masterServerAddress: store.masterServerAddress,
    preferredSegment: settings.preferredSegment ?? "",
    tenantId: store.tenantId,
    enableOffload: store.enableOffload,
    // With a disk tier the metrics tell them too.
    reportTiers: settings.storeTierLog || store.enableOffload,
    verify: settings.poolVerify ?? POOL_VERIFY_DEFAULT,
    checkRemovals: true,
    groupSemantics: settings.enableGroupSemantics,
    keysPerCallMax: 0,
    bytesPerCallMax: 0,
    transferQueueMax: 0,
    logPath: "",
    ...LANES,
  };
}

function requirePython(
  search: InterpreterSearch,
  warn?: (warning: ConfigWarning) => void,
): { path: string; sharedLibrary: string } {
  const interpreter = wheelOf(findInterpreterNow(search));
  const { path, version, sharedLibrary } = interpreter;
  const warning = wheelWarning(interpreter);
  if (warning !== null) warn?.(warning);
  if (sharedLibrary !== null) return { path, sharedLibrary };
  throw new MooncakeKvError({
    code: "MISSING",
    field: "MOONCAKE_PYTHON",
    value: path,
    problem: `this Python ${version} has no shared library, which the engine runs it from`,
    remedy:
      "Debian, Ubuntu: apt-get install libpython3-dev; pyenv: PYTHON_CONFIGURE_OPTS=--enable-shared pyenv install VERSION; or set MOONCAKE_PYTHON to another interpreter.",
  });
}
