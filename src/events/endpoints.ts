/** ZeroMQ addresses by vLLM's rules: who binds, and which port each data-parallel rank has. */
import { isIPv6 } from "node:net";
import { fail } from "../errors.ts";

/** A bind to this address takes the host's own address and any free port. */
const ANY_PORT = "tcp://*:0";

/**
 * The address of data-parallel rank `rank`: its port plus the rank, or for inproc a suffix. Port 0 stays. Throws INVALID_VALUE for an
 * ipc address with a rank above 0, which vLLM refuses too: two ranks would share one path.
 */
export function endpointOfRank(endpoint: string, rank: number): string {
  if (rank === 0) return endpoint;
  if (endpoint.includes("inproc")) return `${endpoint}_dp${rank}`;
  if (!endpoint.includes("tcp"))
    fail(
      "INVALID_VALUE",
      "kv_events_config.endpoint",
      endpoint,
      `gives data-parallel rank ${rank} no address of its own`,
      "Use a tcp or inproc address.",
    );
  const colon = endpoint.lastIndexOf(":");
  const port = endpoint.slice(colon + 1);
  if (!/^\d+$/.test(port))
    fail(
      "INVALID_VALUE",
      "kv_events_config.endpoint",
      endpoint,
      "ends in no port number",
      "Write it as tcp://*:5557.",
    );
  return Number(port) === 0 ? endpoint : `${endpoint.slice(0, colon)}:${Number(port) + rank}`;
}

/** A publisher binds wildcard, ipc and inproc addresses, and connects to others (a collector that many publish to). */
export function isBound(endpoint: string): boolean {
  return endpoint.includes("*") || endpoint.includes("::") || /^(ipc|inproc):/.test(endpoint);
}

interface BindableSocket {
  ipv6: boolean;
  readonly lastEndpoint: string | null;
  bind(address: string): Promise<void>;
}

/** Binds, and returns the address by which others reach it. `hostAddress` stands in for the wildcard of "tcp://*:0". */
export async function bindSocket(
  socket: BindableSocket,
  endpoint: string,
  hostAddress: string,
): Promise<string> {
  const address = endpoint === ANY_PORT ? `tcp://${bracketed(hostAddress)}:0` : endpoint;
  if (address.includes("[") || address.includes("::")) socket.ipv6 = true;
  await socket.bind(address);
  return endpoint === ANY_PORT ? (socket.lastEndpoint ?? address) : endpoint;
}
function bracketed(address: string): string {
  return isIPv6(address) ? `[${address}]` : address;
}

/** Of this machine's addresses the first that others can reach: version 4 before 6. Throws MISSING when there is none. */
export function firstHostAddress(
  interfaces: Readonly<
    Record<string, readonly { address: string; family: string; internal: boolean }[] | undefined>
  >,
): string {
  const outer = Object.values(interfaces).flatMap((addresses) =>
    (addresses ?? []).filter(({ internal }) => !internal),
  );
  const found =
    outer.find(({ family }) => family === "IPv4") ??
    outer.find(({ family, address }) => family === "IPv6" && !address.startsWith("fe80"));
  return (
    found?.address ??
    fail(
      "MISSING",
      "VLLM_HOST_IP",
      undefined,
      `is not set, and this machine has no address for "${ANY_PORT}"`,
      "Set it to the address that subscribers shall use.",
    )
  );
}
