import type { ConnectorConfig } from "../config/connector-config.ts";
import type { ConfigWarning } from "../config/warnings.ts";
import { brokenInvariant } from "../errors.ts";
import type {
  EngineLanes,
  EngineOptions,
  LocalEngineOptions,
  MooncakeEngineOptions,
  NativeBinding,
} from "../native/binding.ts";
import { engineProgram } from "../native/load.ts";
import { mooncakeEngineOptions } from "./mooncake/engine-options.ts";

export type EngineConfig = Pick<
  ConnectorConfig,
  | "engine"
  | "engineProcess"
  | "local"
  | "mooncake"
  | "preferredSegment"
  | "enableGroupSemantics"
  | "storeTierLog"
  | "poolVerify"
>;

/**
 * Opens the storage engine that the configuration asks for and returns its number. `stateWakeId`: a wake handle for changes of
 * its state; `warn` takes what is doubtful about the wheel. Throws MISSING when the engine's Python or wheel is not there,
 * NATIVE_MISSING when the program of a child process is not, and what the addon refuses.
 */
export function openEngine(
  native: Pick<NativeBinding, "engineOpen">,
  config: EngineConfig,
  stateWakeId?: number,
  warn?: (warning: ConfigWarning) => void,
): number {
  const inner = engineOptions(config, warn);
  const options: EngineOptions =
    config.engineProcess === "in_process"
      ? inner
      : {
          kind: "child",
          executable: engineProgram(),
          arguments: [],
          inner,
          ...lanesOfChild(inner),
        };
  return native.engineOpen(stateWakeId === undefined ? options : { ...options, stateWakeId });
}

/** Whether the engine writes lines of its own, which go on in the runtime's log. */
export function engineHasLog({ engine, engineProcess }: EngineConfig): boolean {
  return engine === "mooncake" || engineProcess === "child";
}

/** The only place that knows the kinds. */
function engineOptions(
  config: EngineConfig,
  warn?: (warning: ConfigWarning) => void,
): LocalEngineOptions | MooncakeEngineOptions {
  if (config.engine === "local") {
    const { poolName, bytesMax, ioThreads, verifyChecksums } = config.local;
    return { kind: "local", poolName, bytesMax, ioThreads, verifyChecksums };
  }
  if (config.mooncake === null) brokenInvariant("the mooncake engine without its store");
  return mooncakeEngineOptions(config.mooncake, config, process.cwd(), warn);
}

/** As many calls at a time as the engine takes in this process. */
function lanesOfChild(inner: LocalEngineOptions | MooncakeEngineOptions): EngineLanes {
  if (inner.kind === "local")
    return { existsThreads: 1, getThreads: inner.ioThreads, putThreads: inner.ioThreads };
  const { existsThreads, getThreads, putThreads } = inner;
  return { existsThreads, getThreads, putThreads };
}
