import type { ConnectorConfig } from "../config/connector-config.ts";
import { MooncakeKvError } from "../errors.ts";
import type { NativeBinding } from "../native/binding.ts";

/**
 * Opens the storage engine that the configuration asks for and returns its number; the only place that knows the kinds. Throws
 * UNSUPPORTED for one that this build does not have, and what the addon refuses.
 */
export function openEngine(
  native: Pick<NativeBinding, "engineOpen">,
  config: Pick<ConnectorConfig, "engine" | "local">,
): number {
  if (config.engine !== "local") {
    throw new MooncakeKvError({
      code: "UNSUPPORTED",
      field: "engine",
      value: config.engine,
      problem: "this build has the local engine only",
      remedy: 'Set "engine": "local" in kv_connector_extra_config.',
    });
  }
  const { poolName, bytesMax, ioThreads, verifyChecksums } = config.local;
  return native.engineOpen({ kind: "local", poolName, bytesMax, ioThreads, verifyChecksums });
}
