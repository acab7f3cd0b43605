/** Settings of vLLM that are taken, so that one file serves both, and change nothing here: each is told once, with the reason. */
import { BOOTSTRAP_PORT } from "./environment.ts";
import type { ConnectorEnvironment } from "./environment.ts";
import type { ConfigWarning } from "./warnings.ts";

/** Keys of the KV-transfer configuration, and why they have no effect. A value that asks for nothing is none: see `isOff`. */
const TRANSFER_KEYS: Readonly<Record<string, string>> = {
  engine_id: "nobody asks this build for its engine",
  kv_buffer_device: "KV blocks lie in this host's memory",
  kv_port: "vLLM's store connector does not listen on it either",
  kv_connector_module_path: "the connector is this package's own, not one loaded from Python",
  enable_permute_local_kv: "the layout of KV blocks is what the KV memory says",
};

/** What of `record`, vLLM's KV-transfer configuration, has no effect with the store connector, whatever its engine. */
export function transferKeysWithoutEffect(
  record: Readonly<Record<string, unknown>>,
): ConfigWarning[] {
  return Object.entries(TRANSFER_KEYS)
    .filter(([key]) => !isOff(record[key]))
    .map(([key, reason]) => withoutEffect(key, record[key], `has no effect here: ${reason}`));
}

/** What of the environment has no effect with the store connector. `local`: and with the local engine. */
export function variablesWithoutEffect(
  environment: ConnectorEnvironment,
  local: boolean,
): ConfigWarning[] {
  const { bootstrapPort, requesterLocalHostname, offloadBufferBytes } = environment;
  const warnings: ConfigWarning[] = [];
  if (bootstrapPort !== BOOTSTRAP_PORT) {
    const problem =
      "has no effect here: it belongs to vLLM's MooncakeConnector, not to the store's";
    warnings.push(withoutEffect("VLLM_MOONCAKE_BOOTSTRAP_PORT", bootstrapPort, problem));
  }
  if (!local) return warnings;
  const problem = "has no effect with the local engine: its pool is this process's memory";
  const ofPool = {
    MOONCAKE_REQUESTER_LOCAL_HOSTNAME: requesterLocalHostname,
    MOONCAKE_OFFLOAD_LOCAL_BUFFER_SIZE_BYTES: offloadBufferBytes,
  };
  for (const [name, value] of Object.entries(ofPool))
    if (value !== null) warnings.push(withoutEffect(name, value, problem));
  return warnings;
}

function isOff(value: unknown): boolean {
  return value === undefined || value === null || value === false;
}

function withoutEffect(field: string, value: unknown, problem: string): ConfigWarning {
  const remedy = `Nothing need be done; ${field === field.toUpperCase() ? "unset" : "remove"} it to silence this.`;
  return { field, value, problem, remedy };
}
