import { parseHostPort } from "../../pool/ports.ts";
import type { StoreConfig } from "../../config/store-config.ts";
import { fault, MOONCAKE_ONLY, ok, warn } from "./check.ts";
import type { Finding } from "./check.ts";
import type { DoctorFacts } from "./facts.ts";

/** The store's JSON, the master that it names, and the owner that takes this rank's replicas. */
export function storeChecks(facts: DoctorFacts): Finding[] {
  const { configPath, loaded, problem } = facts.store;
  const name = "store JSON";
  if (configPath === null) {
    const fix =
      "mooncake-kv pool start   # prints the line to export; or export MOONCAKE_CONFIG_PATH=/path/to/store.json";
    return [fault(name, "MOONCAKE_CONFIG_PATH is not set", fix, MOONCAKE_ONLY)];
  }
  if (loaded === null) {
    const text = problem?.text ?? "it could not be read";
    return [fault(name, `${configPath}: ${text}`, problem?.remedy ?? "", MOONCAKE_ONLY)];
  }
  return [
    ok(name, `${configPath}: mode ${loaded.config.mode}, protocol ${loaded.config.protocol}`),
    ...loaded.warnings.map((each) =>
      warn(name, `${each.field} ${JSON.stringify(each.value)}: ${each.problem}`, each.remedy),
    ),
    master(facts, loaded.config),
    ...(facts.store.masterReachable === true ? owner(facts, loaded.config) : []),
  ];
}

function master({ store }: DoctorFacts, { masterServerAddress }: StoreConfig): Finding {
  const name = "master";
  const address = parseHostPort(masterServerAddress);
  if (address === null || store.masterReachable === null) {
    const fix = 'set "master_server_address" to "host:port", for example "127.0.0.1:50051"';
    return fault(name, `${masterServerAddress} is not host:port`, fix, MOONCAKE_ONLY);
  }
  if (store.masterReachable) return ok(name, `${masterServerAddress} accepts connections`);
  const here = ["127.0.0.1", "localhost", "::1"].includes(address.host);
  const fix = here
    ? `mooncake-kv pool start --port ${address.port} --detach`
    : `mooncake_master --rpc_address=${address.host} --rpc_port=${address.port}   # on ${address.host}; and open the port in its firewall`;
  return fault(name, `nobody answers at ${masterServerAddress}`, fix, MOONCAKE_ONLY);
}

function owner({ store }: DoctorFacts, config: StoreConfig): Finding[] {
  const name = "owner";
  const { preferredSegment, segments, metricsAddress } = store;
  const standalone = config.mode === "standalone-store";
  if (preferredSegment === null && !standalone) return [];
  if (segments === null) {
    const found = `not known: the master's metrics port ${metricsAddress ?? ""} does not answer`;
    return [
      warn(
        name,
        found,
        "mooncake-kv doctor --metrics HOST:PORT   # where the master serves its metrics",
      ),
    ];
  }
  const living = segments.filter(({ status }) => status === "OK").map((segment) => segment.name);
  const host = preferredSegment ?? "HOST:PORT";
  const offload = config.enableOffload ? " --enable_offload=true" : "";
  const start = `mooncake_client --host=${host} --port=50052 --master_server_address=${config.masterServerAddress} --metadata_server=P2PHANDSHAKE --protocol=${config.protocol} --global_segment_size=4GB${offload}`;
  if (living.length === 0)
    return [
      fault(
        name,
        "no member gives memory to the pool: every save will be refused",
        start,
        MOONCAKE_ONLY,
      ),
    ];
  if (preferredSegment === null) return [ok(name, `memory of ${living.join(", ")}`)];
  if (living.includes(preferredSegment))
    return [ok(name, `${preferredSegment} (MOONCAKE_PREFERRED_SEGMENT)`)];
  const found = `MOONCAKE_PREFERRED_SEGMENT ${preferredSegment} is no living member; there are ${living.join(", ")}`;
  return [
    fault(
      name,
      found,
      `export MOONCAKE_PREFERRED_SEGMENT=${living[0]}   # or start it: ${start}`,
      MOONCAKE_ONLY,
    ),
  ];
}
