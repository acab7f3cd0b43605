/** Sizes of a KV-cache group of its own, for hybrid models whose groups are unlike. */
import { fail } from "../errors.ts";
import { isRecord } from "./json-text.ts";
import { positive, refuseUnknownKeys } from "./kv-checks.ts";
import type { KvCacheConfigInput, KvCacheGroup, Rank } from "./kv-cache-config.ts";

type GroupInput = KvCacheConfigInput["groups"][number];

/** Throws for sizes that are no numbers, or that mean nothing for the group's kind. */
export function normalizeGroupSizes(
  group: GroupInput,
  field: string,
  tp: Rank,
): Pick<KvCacheGroup, "heads" | "stateBytes"> {
  const { heads, stateBytes } = group;
  if (group.kind === "mamba") {
    if ((heads ?? null) !== null)
      fail(
        "INVALID_VALUE",
        `${field}.heads`,
        heads,
        "a group of states has no heads",
        "Remove it.",
      );
    if ((stateBytes ?? null) === null) return {};
    return { stateBytes: positive(stateBytes, `${field}.stateBytes`) };
  }
  if ((stateBytes ?? null) !== null) {
    const problem = `a group of kind "${group.kind}" has no states`;
    fail("INVALID_VALUE", `${field}.stateBytes`, stateBytes, problem, "Remove it.");
  }
  if (heads === undefined || heads === null) return {};
  if (!isRecord(heads)) {
    const remedy =
      "Give for example { kvHeads: 4, headSize: 128 }, or leave it out for the model's.";
    fail("INVALID_TYPE", `${field}.heads`, heads, "must be head count and size", remedy);
  }
  refuseUnknownKeys(heads, ["kvHeads", "headSize"], `${field}.heads.`);
  const kvHeads = positive(heads.kvHeads, `${field}.heads.kvHeads`);
  const headSize = positive(heads.headSize, `${field}.heads.headSize`);
  checkHeadsOverRanks(kvHeads, `${field}.heads.kvHeads`, tp);
  return { heads: Object.freeze({ kvHeads, headSize }) };
}

/** Heads are cut over tensor-parallel ranks, or copied to several. */
export function checkHeadsOverRanks(kvHeads: number, field: string, tp: Rank): void {
  if (kvHeads % tp.size === 0 || tp.size % kvHeads === 0) return;
  const problem = `${field} ${kvHeads} can be neither cut nor copied evenly over the ranks`;
  const remedy = `Choose a multiple or a divisor of ${field}.`;
  fail("INVALID_VALUE", "tp.size", tp.size, problem, remedy);
}
