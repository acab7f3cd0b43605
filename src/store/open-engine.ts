import type { ConnectorConfig } from "../config/connector-config.ts";
import { MooncakeKvError } from "../errors.ts";
import type { EngineOptions, NativeBinding } from "../native/binding.ts";

export type EngineConfig = Pick<ConnectorConfig, "engine" | "local">;

/**
 * Opens the storage engine that the configuration asks for and returns its number. `stateWakeId`: a wake handle for changes of
 * its state. Throws UNSUPPORTED for a kind that this build does not have, and what the addon refuses.
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
      throw new MooncakeKvError({
        code: "UNSUPPORTED",
        field: "engine",
        value: config.engine,
        problem: "this build has the local engine only",
        remedy: 'Set "engine": "local" in kv_connector_extra_config.',
      });
  }
}
