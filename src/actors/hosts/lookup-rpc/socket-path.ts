import { lstatSync, rmSync, statSync } from "node:fs";
import { connect } from "node:net";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import type { ConnectorConfig } from "../../../config/connector-config.ts";
import type { KvCacheConfig } from "../../../config/kv-cache-config.ts";
import { fail } from "../../../errors.ts";

const PORT_FIELD = "kv_connector_extra_config.lookup_rpc_port";
/** What a Unix socket's address holds on Linux, its end mark apart. */
const PATH_BYTES_MAX = 107;
/** How a connection to a Unix socket fails when there is none, or nobody behind it. */
const NOBODY_LISTENS: readonly string[] = ["ENOENT", "ECONNREFUSED", "ENOTSOCK"];

/**
 * The lookup socket's path, as vLLM forms it: `<folder>/lookup_rpc_port_<port>_host_<host name>_dp_rank<rank>`; null when the
 * configuration opens none, or for a rank other than the first: only that one's worker answers, and asking is done once.
 * Throws INVALID_VALUE for a folder that is not there or a path that is too long.
 */
export function lookupSocketPath(
  connector: Pick<ConnectorConfig, "lookupRpcRole" | "lookupRpcPort" | "lookupRpcFolder">,
  kvCache: Pick<KvCacheConfig, "tp" | "pp" | "pcp" | "dp">,
): string | null {
  const { lookupRpcRole, lookupRpcPort, lookupRpcFolder } = connector;
  const first = kvCache.tp.rank === 0 && kvCache.pp.rank === 0 && kvCache.pcp.rank === 0;
  if (lookupRpcRole === null || (lookupRpcRole === "server" && !first)) return null;
  const folder = lookupRpcFolder ?? tmpdir();
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true)
    fail(
      "INVALID_VALUE",
      "VLLM_RPC_BASE_PATH",
      folder,
      "is no folder, so the lookup socket cannot lie there",
      "Make the folder, or name one that all processes of this host use.",
    );
  const name = `lookup_rpc_port_${lookupRpcPort}_host_${hostname()}_dp_rank${kvCache.dp.rank}`;
  const path = join(folder, name);
  if (Buffer.byteLength(path) <= PATH_BYTES_MAX) return path;
  return fail(
    "INVALID_VALUE",
    "VLLM_RPC_BASE_PATH",
    folder,
    `makes the lookup socket's path longer than ${PATH_BYTES_MAX} bytes: ${path}`,
    "Name a folder with a shorter path, in every process that uses the socket.",
  );
}

/**
 * Makes sure that nobody listens at the path, and clears away what a dead process left there. (vLLM takes the path from a living
 * server, whose askers then wait for ever.) Rejects with INVALID_VALUE when somebody answers.
 */
export async function claimSocketPath(path: string): Promise<void> {
  if (await answers(path))
    fail(
      "INVALID_VALUE",
      PORT_FIELD,
      path,
      "another process answers lookups at this socket",
      "Give each server of a host a lookup_rpc_port of its own, or set lookup_rpc_role to client.",
    );
  if (lstatSync(path, { throwIfNoEntry: false })?.isSocket() === true)
    rmSync(path, { force: true });
}

function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    // A living server whose backlog is full refuses with another code: its path is not ours to take.
    socket.once("error", (error: NodeJS.ErrnoException) =>
      resolve(!NOBODY_LISTENS.includes(error.code ?? "")),
    );
  });
}
