/** ZeroMQ addresses by vLLM's rules: who binds, and which port each data-parallel rank has. */
import { isIPv6 } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { socketFileState } from "../config/socket-file.ts";
import { fail, MooncakeKvError } from "../errors.ts";

/** A bind to this address takes the host's own address and any free port. */
const ANY_PORT = "tcp://*:0";
/** How long a socket's path is looked at again before it counts as another's: half a second in all. */
const CLOSING_WAITS = 25;
const CLOSING_WAIT_MS = 20;

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

interface AddressableSocket {
  ipv6: boolean;
  readonly lastEndpoint: string | null;
  bind(address: string): Promise<void>;
  connect(address: string): void;
}

/**
 * Binds, and returns the address by which others reach it. `hostAddress` stands in for the wildcard of "tcp://*:0". Throws
 * INVALID_VALUE naming the setting `field` when the address is in use or not of this machine.
 */
export async function bindSocket(
  field: string,
  socket: AddressableSocket,
  endpoint: string,
  hostAddress: () => string,
): Promise<string> {
  const any = endpoint === ANY_PORT;
  const address = any ? `tcp://${bracketed(hostAddress())}:0` : endpoint;
  if (isVersion6(address)) socket.ipv6 = true;
  await checkSocketFile(field, address);
  try {
    await socket.bind(address);
  } catch (cause) {
    throw unusable(field, address, "bound", cause);
  }
  return any || /:[0*]$/.test(address) ? (socket.lastEndpoint ?? address) : endpoint;
}

/** ZeroMQ removes whatever lies at the path of an ipc address before it binds, also a file, and the socket of a living process. */
async function checkSocketFile(field: string, address: string): Promise<void> {
  const path = /^ipc:\/\/(.+)$/.exec(address)?.[1];
  // Wildcards and names that begin with @ lie in no folder.
  if (path === undefined || path === "*" || path.startsWith("@")) return;
  let state = await socketFileState(path);
  // A publisher of this process that was closed just now: ZeroMQ gives its socket up a little later.
  for (let waits = 0; state === "living" && waits < CLOSING_WAITS; waits++) {
    await sleep(CLOSING_WAIT_MS);
    state = await socketFileState(path);
  }
  if (state === "absent" || state === "dead") return;
  const cause =
    state === "living" ? "another process listens there" : "something that is no socket lies there";
  throw unusable(field, address, "bound", cause);
}

/** Throws INVALID_VALUE naming the setting `field` for what is no address. The other side need not be there yet. */
export function connectSocket(field: string, socket: AddressableSocket, endpoint: string): void {
  if (isVersion6(endpoint)) socket.ipv6 = true;
  try {
    socket.connect(endpoint);
  } catch (cause) {
    throw unusable(field, endpoint, "connected to", cause);
  }
}

function isVersion6(address: string): boolean {
  return address.includes("[") || address.includes("::");
}
function unusable(field: string, value: string, what: string, cause: unknown): MooncakeKvError {
  return new MooncakeKvError({
    code: "INVALID_VALUE",
    field: `kv_events_config.${field}`,
    value,
    problem: `cannot be ${what}: ${cause instanceof Error ? cause.message : String(cause)}`,
    remedy: "Give another address, or end the process that uses this one.",
    cause,
  });
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
