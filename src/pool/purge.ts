import { fail } from "../errors.ts";
import { cachePrefixPattern } from "../store/key-names.ts";
import { askStore } from "./store-client.ts";
import type { StoreClientOptions } from "./store-client.ts";

export interface PurgeRequest {
  /** The deployment's cache_prefix; null: every key of the tenant. */
  readonly prefix: string | null;
  /**
   * Also keys that somebody has looked up within the lease (10 s unless the master says otherwise) or is reading: a reader that does
   * not check for it may then take bytes that were stored in their place.
   */
  readonly force: boolean;
}

/** Removes keys; returns how many. Throws INVALID_VALUE for an empty prefix, BROKEN_INVARIANT when the master refuses. */
export async function purgePool(
  client: StoreClientOptions,
  request: PurgeRequest,
): Promise<number> {
  if (request.prefix === "")
    fail("INVALID_VALUE", "--prefix", "", "is empty", "Name the cache_prefix of the deployment.");
  const { removed = -1 } = await askStore(
    client,
    request.prefix === null
      ? { action: "removeAll", force: request.force }
      : {
          action: "removeMatching",
          pattern: cachePrefixPattern(request.prefix),
          force: request.force,
        },
  );
  if (removed >= 0) return removed;
  return fail("CLOSED", "the master", removed, "refused to remove the keys", "Look at its log.");
}
