import { ENTRY_WORDS } from "../../blocks/layout.ts";
import { isPresent } from "../../connector/worker/store-requests.ts";

/**
 * Moves the entries whose key is not known to be there to the front, in order, and returns how many they are. A key that
 * could not be asked for counts as missing: a put of a present key costs a little and changes nothing.
 */
export function keepMissing(entries: Int32Array, results: Int32Array, count: number): number {
  let missing = 0;
  for (let index = 0; index < count; index++) {
    if (isPresent(results[index]!)) continue;
    const from = index * ENTRY_WORDS;
    if (missing !== index) entries.copyWithin(missing * ENTRY_WORDS, from, from + ENTRY_WORDS);
    missing++;
  }
  return missing;
}
