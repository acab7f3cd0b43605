import { networkInterfaces } from "node:os";
import type { MooncakePoolConfig } from "../../config/connector-config.ts";
import { MooncakeKvError } from "../../errors.ts";
import type { MooncakeEngineOptions } from "../../native/binding.ts";
import { findInterpreterNow, wheelOf } from "./interpreter.ts";
import type { InterpreterSearch } from "./interpreter.ts";

/** Enough that lookups, loads and saves of several jobs go on side by side; more only wait for the interpreter's lock. */
const LANES = { existsThreads: 2, getThreads: 4, putThreads: 4 };

/**
 * What the addon needs to open this process's store. Asks the interpreter about itself, which takes some 50 ms. Throws MISSING when
 * there is no interpreter, none with the wheel, or none with a shared library, each with the command that mends it.
 */
export function mooncakeEngineOptions(
  { store, requesterLocalHostname, python, searchPath }: MooncakePoolConfig,
  preferredSegment: string | null,
  workingFolder: string,
): MooncakeEngineOptions {
  const { path, library } = requirePython({ python, workingFolder, searchPath });
  return {
    kind: "mooncake",
    pythonExecutable: path,
    pythonLibrary: library,
    localHostname: requesterLocalHostname ?? localAddress(),
    // The address of a metadata service, or the word that there is none.
    metadataServer: store.metadataServer === "" ? "P2PHANDSHAKE" : store.metadataServer,
    globalSegmentBytes: store.globalSegmentBytes,
    localBufferBytes: store.localBufferBytes,
    protocol: store.protocol,
    deviceName: store.deviceName,
    masterServerAddress: store.masterServerAddress,
    preferredSegment: preferredSegment ?? "",
    tenantId: store.tenantId,
    enableOffload: store.enableOffload,
    keysPerCallMax: 0,
    bytesPerCallMax: 0,
    transferQueueMax: 0,
    logPath: "",
    ...LANES,
  };
}

function requirePython(search: InterpreterSearch): { path: string; library: string } {
  const { path, version, sharedLibrary } = wheelOf(findInterpreterNow(search));
  if (sharedLibrary !== null) return { path, library: sharedLibrary };
  throw new MooncakeKvError({
    code: "MISSING",
    field: "MOONCAKE_PYTHON",
    value: path,
    problem: `this Python ${version} has no shared library, which the engine runs it from`,
    remedy:
      "Debian, Ubuntu: apt-get install libpython3-dev; pyenv: PYTHON_CONFIGURE_OPTS=--enable-shared pyenv install VERSION; or set MOONCAKE_PYTHON to another interpreter.",
  });
}

/**
 * The address under which other hosts reach this one: of the first interface that is up and not loopback, IPv4 first. vLLM asks the
 * routing table instead; on a host with several networks both can be wrong, and MOONCAKE_REQUESTER_LOCAL_HOSTNAME says what is right.
 */
function localAddress(): string {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  const outside = all.filter(({ internal, scopeid }) => !internal && (scopeid ?? 0) === 0);
  const first = outside.find(({ family }) => family === "IPv4") ?? outside[0];
  return first?.address ?? "127.0.0.1";
}
