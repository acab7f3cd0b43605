/**
 * Goal: what vLLM's own code computed, ours computes: every case of every golden file.
 * Method: the runner of `npm run vectors` over the project's own copy. The numbers of cases are fixed here, so that none can
 * vanish, nor a second run of jobs as plans; and a changed value in each file must be noticed (control).
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { kindOf } from "./runner/run-folder.ts";
import type { KindResult } from "./runner/cases.ts";

/** Cases, mended ones among them, and a change that has to make cases fail. */
const FILES: Readonly<Record<string, readonly [number, number, RegExp, string]>> = {
  none_hash: [20, 0, /"none_hash": ?"[0-9a-f]/, '"none_hash":"x'],
  hashes_sha256: [156, 0, /"hashes": ?\["[0-9a-f]/, '"hashes":["x'],
  hashes_sha256_cbor: [156, 0, /"hashes": ?\["[0-9a-f]/, '"hashes":["x'],
  hashes_xxhash: [153, 0, /"hashes": ?\["[0-9a-f]/, '"hashes":["x'],
  hashes_xxhash_cbor: [153, 0, /"hashes": ?\["[0-9a-f]/, '"hashes":["x'],
  hash_inputs: [144, 0, /"input": ?"[0-9a-f]/, '"input":"x'],
  store_config: [46, 0, /"result": ?\d/, '"result":7'],
  masks: [96, 0, /"load_mask": ?\["1/, '"load_mask":["0'],
  lookup_hits: [192, 0, /"hit_tokens": ?112/, '"hit_tokens":96'],
  pool_keys: [49, 0, /"put_keys": ?\["/, '"put_keys":["x'],
  segments: [28, 0, /"sizes": ?\[\[4096/, '"sizes":[[4095'],
  disk_split: [60, 0, /"batches": ?\[\["k0"/, '"batches":[["k1"'],
  lookup_wire: [31, 0, /"frames": ?\["6c/, '"frames":["6d'],
  p2p: [214, 0, /"plan": ?\[true, ?0, ?0, ?16384/, '"plan":[true,0,0,16383'],
  worker_saves: [16, 0, /"saved_offset": ?\{"a": ?32/, '"saved_offset":{"a":48'],
  worker_loads: [16, 2, /"op": ?"get", ?"keys": ?\["m/, '"op":"get","keys":["x'],
  scheduler_traces: [32, 0, /"token_len_chunk": ?64/, '"token_len_chunk":48'],
};

/** Cases of saves and loads that follow chunk numbers: each is run a second time, with its jobs as plans. */
const RAN_AS_PLANS: Readonly<Record<string, number>> = { worker_saves: 10, worker_loads: 10 };

function run(name: string, text: string): KindResult {
  const kind = kindOf(`${name}.json`);
  if (kind === null) throw new Error(`no kind reads ${name}.json`);
  return kind.run(JSON.parse(text));
}

describe.each(Object.entries(FILES))("%s", (name, [cases, mended, from, to]) => {
  const path = fileURLToPath(new URL(`data/${name}.json`, import.meta.url));
  const text = readFileSync(path, "utf8");

  it(`equals vLLM's in ${cases} cases`, () => {
    const result = run(name, text);
    expect(result.problems).toEqual([]);
    expect([result.passed, result.failed, result.mended]).toEqual([cases, 0, mended]);
    expect(result.ranAsPlans).toBe(RAN_AS_PLANS[name] ?? 0);
  });

  it("notices a changed value (control)", () => {
    expect(from.test(text)).toBe(true);
    expect(run(name, text.replace(from, to)).failed).toBe(1);
  });
});
