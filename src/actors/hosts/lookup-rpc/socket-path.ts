import { rmSync, statSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import type { ConnectorConfig } from "../../../config/connector-config.ts";
import type { KvCacheConfig } from "../../../config/kv-cache-config.ts";
import { socketFileState } from "../../../config/socket-file.ts";
import { fail } from "../../../errors.ts";

const PORT_FIELD = "kv_connector_extra_config.lookup_rpc_port";
/** What a Unix socket's address holds on Linux, its end mark apart. */
const PATH_BYTES_MAX = 107;

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
 * server, whose askers then wait for ever.) Rejects with INVALID_VALUE when somebody answers, or when no socket lies there.
 */
export async function claimSocketPath(path: string): Promise<void> {
  const state = await socketFileState(path);
  if (state === "absent") return;
  if (state === "living")
    fail(
      "INVALID_VALUE",
      PORT_FIELD,
      path,
      "another process answers lookups at this socket",
      "Give each server of a host a lookup_rpc_port of its own, or set lookup_rpc_role to client.",
    );
  if (state === "other") refuse(path, "something that is no socket lies there");
  try {
    rmSync(path, { force: true });
  } catch (error) {
    refuse(path, `a dead process's socket cannot be removed: ${String(error)}`);
  }
}

function refuse(path: string, problem: string): never {
  fail(
    "INVALID_VALUE",
    PORT_FIELD,
    path,
    problem,
    "Remove it if nobody needs it, give another lookup_rpc_port, or set VLLM_RPC_BASE_PATH to a folder of your own.",
  );
}
