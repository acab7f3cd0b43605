/** Which chunks of each group are loaded, looked up and stored. */
import { loadMasks, lookupMasks, storeMasks } from "../../../../src/keys/coordinator/masks.ts";
import type { ChunkMask } from "../../../../src/keys/coordinator/masks.ts";
import { hitRulesOf } from "../../vectors.ts";
import type { VectorConfig } from "../../vectors.ts";
import { Cases } from "../cases.ts";
import type { VectorKind } from "../cases.ts";

interface MaskCase {
  readonly config: VectorConfig;
  readonly token_len: number;
  readonly start_token: number;
  readonly num_prompt_tokens: number | null;
  readonly load_mask: readonly (string | null)[];
  readonly lookup_mask: readonly (string | null)[];
  readonly store_mask: readonly (string | null)[];
}

export const masks: VectorKind = {
  name: "masks",
  run(contents) {
    const report = new Cases();
    (contents as { cases: MaskCase[] }).cases.forEach((one, index) =>
      report.run(`${index} ${JSON.stringify(one.config)} ${one.token_len} tokens`, (check) => {
        const rules = hitRulesOf(one.config);
        const tokens = one.token_len;
        const hashes = Math.floor(tokens / rules.hashBlockSize);
        const store = storeMasks(rules, tokens, one.start_token, one.num_prompt_tokens);
        check.equal("load", loadMasks(rules, tokens, hashes).map(maskText), one.load_mask);
        check.equal("lookup", lookupMasks(rules, tokens).map(maskText), one.lookup_mask);
        check.equal("store", store.map(maskText), one.store_mask);
      }),
    );
    return report;
  },
};

function maskText(mask: ChunkMask): string | null {
  return mask === null ? null : mask.join("");
}
