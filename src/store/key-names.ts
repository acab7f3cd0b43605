/** What the text of a pool key says about the deployment that it is of. Twin of native/core/key_names.h. */

/** Follows a model's name and an `@` in the keys of blocks. */
const BLOCKS = "tp_rank:|store_tp:|store_pp:";
/** What members publish for each other, at the end of a key. */
const PUBLISHED = "mooncake-kv-[^@]*$";
/** In the keys of what members know about a value, behind the value's own key. */
export const CHECKSUM_MARK = "#xxh3";

/**
 * A pattern (ECMAScript, for the master too) of the keys of all deployments with this cache_prefix: `prefix@model`, then ranks, the
 * store's shape, or what members publish about themselves. A deployment without a prefix whose model has the prefix for a name is
 * another one, and so is one whose prefix goes on behind an `@`: so a model's name with an `@` is not recognized here.
 */
export function cachePrefixPattern(cachePrefix: string): string {
  return `^${quoted(cachePrefix)}@(?!${BLOCKS})[^@]+@(${BLOCKS}|${PUBLISHED})`;
}

/** The same pattern, without the keys of checksums. */
export function withoutChecksums(pattern: string): string {
  return `^(?!.*${CHECKSUM_MARK})${pattern.slice(1)}`;
}

export function isChecksumKey(key: string): boolean {
  return key.includes(CHECKSUM_MARK);
}

/** Whether `cachePrefixPattern` matches the key. */
export function hasCachePrefix(key: string, cachePrefix: string): boolean {
  const model = behindPrefix(key, cachePrefix);
  return model !== null && !model.includes("@");
}

/**
 * The longer prefix of a key that begins with `cachePrefix@` and yet is not named by it; the model's name is taken for the part behind
 * the last `@`. null for any other key.
 */
export function longerCachePrefix(key: string, cachePrefix: string): string | null {
  const rest = behindPrefix(key, cachePrefix);
  return rest?.includes("@") === true
    ? `${cachePrefix}@${rest.slice(0, rest.lastIndexOf("@"))}`
    : null;
}

const BEHIND_MODEL = new RegExp(`@(?:${BLOCKS}|${PUBLISHED})`);

/** What stands between the prefix and what follows a model's name: a model's name, unless it has an `@`. */
function behindPrefix(key: string, cachePrefix: string): string | null {
  if (!key.startsWith(`${cachePrefix}@`)) return null;
  const rest = key.slice(cachePrefix.length);
  const end = rest.search(BEHIND_MODEL);
  return end > 1 ? rest.slice(1, end) : null;
}

/** Matches the text to the letter. */
function quoted(text: string): string {
  return text.replace(/[\\^$.|?*+()[\]{}]/g, "\\$&");
}
