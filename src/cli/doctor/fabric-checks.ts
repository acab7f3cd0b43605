import { fault, MOONCAKE_ONLY, ok, warn } from "./check.ts";
import type { Finding } from "./check.ts";
import type { DoctorFacts, RdmaDevice } from "./facts.ts";

const SOFT_RDMA =
  'modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0   # without hardware; or "protocol": "tcp" in the store\'s JSON';

/** What RDMA needs of the machine; over TCP none of it is needed. */
export function fabricChecks(facts: DoctorFacts): Finding[] {
  return [devices(facts), lockedMemory(facts), hugepages(facts)];
}

function devices({ rdma, store }: DoctorFacts): Finding {
  const name = "RDMA devices";
  const config = store.loaded?.config;
  const active = rdma.filter(({ portStates }) => portStates.includes("ACTIVE"));
  const found = rdma.length === 0 ? "none" : rdma.map(describe).join(", ");
  if (config?.protocol !== "rdma")
    return ok(
      name,
      `${found}${config === undefined ? "" : ` (protocol ${config.protocol} needs none)`}`,
    );
  if (active.length === 0)
    return fault(name, `${found}; the protocol is rdma`, SOFT_RDMA, MOONCAKE_ONLY);
  // Several devices are named with commas between.
  const wanted = config.deviceName.split(",").map((each) => each.trim());
  const absent = wanted.filter(
    (each) => each !== "" && !active.some((device) => device.name === each),
  );
  if (absent.length === 0) return ok(name, found);
  const names = active.map((device) => device.name).join(", ");
  const fix = `set "device_name" to one of ${names}, or to "" for all of them`;
  return fault(name, `${found}; device_name asks for ${absent.join(", ")}`, fix, MOONCAKE_ONLY);
}

function describe({ name, portStates }: RdmaDevice): string {
  return `${name} ${portStates.join("/") || "without ports"}`;
}

/** RDMA pins all that is registered: this rank's segment and its buffer, and the KV memory besides. */
function lockedMemory({ machine, store }: DoctorFacts): Finding {
  const name = "locked memory";
  const limit = machine.lockedMemoryBytesMax;
  if (limit === null) return ok(name, "unlimited");
  const config = store.loaded?.config;
  if (config?.protocol !== "rdma") return ok(name, `${limit} bytes (only RDMA pins memory)`);
  const needed = config.globalSegmentBytes + config.localBufferBytes;
  const found = `${limit} bytes may be locked; ${needed} and the KV memory will be`;
  const fix =
    "ulimit -l unlimited   # as root; for good: memlock unlimited in /etc/security/limits.conf; containers: --ulimit memlock=-1";
  return limit < needed ? fault(name, found, fix, MOONCAKE_ONLY) : warn(name, found, fix);
}

function hugepages({ machine, store }: DoctorFacts): Finding {
  const name = "hugepages";
  const { hugepagesFree, hugepagesTotal, hugepageBytes, hugepagesWanted } = machine;
  const found = `${hugepagesFree} of ${hugepagesTotal} free, ${hugepageBytes} bytes each`;
  if (!hugepagesWanted) return ok(name, `${found} (not asked for: MC_STORE_USE_HUGEPAGE is unset)`);
  const config = store.loaded?.config;
  const bytes = (config?.globalSegmentBytes ?? 0) + (config?.localBufferBytes ?? 0);
  const needed = Math.max(1, Math.ceil(bytes / hugepageBytes));
  if (hugepagesFree >= needed) return ok(name, found);
  const fix = `sysctl -w vm.nr_hugepages=${hugepagesTotal - hugepagesFree + needed}   # as root; or unset MC_STORE_USE_HUGEPAGE`;
  return fault(name, `${found}; ${needed} are needed`, fix, MOONCAKE_ONLY);
}
