import type { KvCacheConfig } from "../../config/kv-cache-config.ts";
import type { ConnectorConfig } from "../../config/connector-config.ts";
import { fail } from "../../errors.ts";
import { hitRulesOf } from "../../keys/coordinator/rules-of.ts";
import { keyNamespaceOf } from "../../keys/pool-keys.ts";
import { selectStoreShape } from "../../keys/store-shape.ts";

/**
 * The built-in scheduler allocates one block a chunk in every group. Throws UNSUPPORTED for models whose transfers are planned
 * (windows, states, drafters, blocks of several sizes or values); a serving loop of one's own can attach the connector to them.
 */
export function refusePlans(kvCache: KvCacheConfig, connector: ConnectorConfig): void {
  const remedy =
    "Attach the connector to a serving loop that allocates such blocks (attachConnector).";
  const { tpSize } = selectStoreShape(kvCache, keyNamespaceOf(connector).storeTp ?? null);
  if (tpSize !== null && tpSize !== kvCache.tp.size) {
    const problem = "the built-in scheduler stores a block as one value";
    fail("UNSUPPORTED", "kv_connector_extra_config.store_tp_size", tpSize, problem, remedy);
  }
  if (hitRulesOf(kvCache).uniform) return;
  const kinds = kvCache.groups.map(({ kind, blockSize }) => `${kind} of ${blockSize}`);
  const problem =
    "the built-in scheduler serves attention that needs all blocks, of one size in all groups, without a drafter";
  fail("UNSUPPORTED", "kvCache.groups", kinds, problem, remedy);
}
