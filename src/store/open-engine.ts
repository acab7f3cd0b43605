import type { ConnectorConfig } from "../config/connector-config.ts";
import { brokenInvariant } from "../errors.ts";
import type { EngineOptions, NativeBinding } from "../native/binding.ts";
import { mooncakeEngineOptions } from "./mooncake/engine-options.ts";

export type EngineConfig = Pick<
  ConnectorConfig,
  "engine" | "local" | "mooncake" | "preferredSegment"
>;

/**
 * Opens the storage engine that the configuration asks for and returns its number. `stateWakeId`: a wake handle for changes of
 * its state. Throws MISSING when the engine's Python or wheel is not there, and what the addon refuses.
 */
export function openEngine(
  native: Pick<NativeBinding, "engineOpen">,
  config: EngineConfig,
  stateWakeId?: number,
): number {
  const options = engineOptions(config);
  return native.engineOpen(stateWakeId === undefined ? options : { ...options, stateWakeId });
}

/** The only place that knows the kinds. */
function engineOptions(config: EngineConfig): EngineOptions {
  switch (config.engine) {
    case "local": {
      const { poolName, bytesMax, ioThreads, verifyChecksums } = config.local;
      return { kind: "local", poolName, bytesMax, ioThreads, verifyChecksums };
    }
    case "mooncake":
      if (config.mooncake === null) brokenInvariant("the mooncake engine without its store");
      return mooncakeEngineOptions(config.mooncake, config.preferredSegment, process.cwd());
  }
}
