import { fail } from "../errors.ts";
import { cachePrefixPattern, withoutChecksums } from "../store/key-names.ts";
import { askStore } from "./store-client.ts";
import type { StoreAnswer, StoreClientOptions } from "./store-client.ts";

export interface PurgeRequest {
  /** The deployment's cache_prefix; null: every key of the tenant. */
  readonly prefix: string | null;
  /**
   * Also keys that somebody has looked up within the lease (10 s unless the master says otherwise) or is reading: a reader that does
   * not check for it may then take bytes that were stored in their place.
   */
  readonly force: boolean;
}

/**
 * Removes keys; returns how many. Checksums go when no value is left, so that none is used unchecked for want of its own; `valuesLeft`
 * is asked for that. Throws INVALID_VALUE for an empty prefix, BROKEN_INVARIANT when the master refuses.
 */
export async function purgePool(
  client: StoreClientOptions,
  request: PurgeRequest,
  valuesLeft: () => Promise<boolean>,
): Promise<number> {
  const { prefix, force } = request;
  if (prefix === "")
    fail("INVALID_VALUE", "--prefix", "", "is empty", "Name the cache_prefix of the deployment.");
  if (prefix === null) return removed(await askStore(client, { action: "removeAll", force }));
  const pattern = cachePrefixPattern(prefix);
  const remove = async (matching: string): Promise<number> =>
    removed(await askStore(client, { action: "removeMatching", pattern: matching, force }));
  if (force) return await remove(pattern);
  const values = await remove(withoutChecksums(pattern));
  return (await valuesLeft()) ? values : values + (await remove(pattern));
}

function removed({ removed: count = -1 }: StoreAnswer): number {
  if (count >= 0) return count;
  return fail("CLOSED", "the master", count, "refused to remove the keys", "Look at its log.");
}
