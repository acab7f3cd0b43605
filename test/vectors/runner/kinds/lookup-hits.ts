/** From the keys that exist to the hit, and to the hashes that name each group's last block. */
import { poolKeyPrefixes } from "../../../../src/keys/pool-keys.ts";
import {
  answerLookup,
  lookupKeys,
  planLookup,
} from "../../../../src/keys/coordinator/lookup-plan.ts";
import { hitRulesOf, namespaceOf, topologyOf } from "../../vectors.ts";
import type { VectorConfig } from "../../vectors.ts";
import { Cases } from "../cases.ts";
import type { VectorKind } from "../cases.ts";

interface HitCase {
  readonly config: VectorConfig;
  readonly num_tokens: number;
  readonly hashes: readonly string[];
  readonly candidates: number;
  readonly missing: readonly number[];
  readonly hit_tokens: number;
  readonly tail_key_boundaries: readonly (readonly [number, number])[];
}

export const lookupHits: VectorKind = {
  name: "lookup_hits",
  run(contents) {
    const report = new Cases();
    (contents as { cases: HitCase[] }).cases.forEach((one, index) =>
      report.run(`${index} ${JSON.stringify(one.config)} ${one.num_tokens} tokens`, (check) => {
        const rules = hitRulesOf(one.config);
        const rank0 = topologyOf(one.config, { tp: 0, pp: 0, pcp: 0, dcp: 0 });
        const { groups } = poolKeyPrefixes(rank0, namespaceOf(one.config));
        const prefixes = groups.map((group) => group.lookup.length);
        const plan = planLookup(rules, { tokens: one.num_tokens, hashes: one.hashes.length });
        const exists = new Uint8Array(one.candidates).fill(1);
        for (const key of one.missing) exists[key] = 0;
        const answer = answerLookup(rules, plan, prefixes, exists);
        check.equal("keys", lookupKeys(plan, prefixes), one.candidates);
        check.equal("hit", answer.hitTokens, one.hit_tokens);
        const tails = answer.tailTokens.map((tokens, group) => [group, tokens]);
        check.equal("tails", tails, one.tail_key_boundaries);
      }),
    );
    return report;
  },
};
