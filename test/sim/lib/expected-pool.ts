import {
  feedToken,
  HASH_START,
  kvFirst,
  kvSecond,
  laneOf,
  modelTruth,
} from "../../../src/actors/hosts/simulated/model-truth.ts";
import { HASH_ALGORITHMS } from "../../../src/config/kv-cache-config.ts";
import { encodeExtra } from "../../../src/keys/block-extra.ts";
import { BlockHasher } from "../../../src/keys/block-hash.ts";
import { noneHash } from "../../../src/keys/none-hash.ts";
import { HASH_SEED } from "./simulated-hashing.ts";
import type { PlannedRequest, RunPlan } from "./workload.ts";

/** Key prefix under which a rank puts a group's blocks. */
export function poolPrefix(plan: RunPlan, rank: number, group: number): string {
  return `sim@rank:${plan.shape.ranksAreEqual ? 0 : rank}@group:${group}`;
}

/**
 * All that may ever lie in the pool of a run: key text to value, computed from the requests' tokens alone, by other code than
 * the product's. Whatever else is found there is a wrong block under a good key.
 */
export function expectedPool(plan: RunPlan): Map<string, Uint8Array> {
  const values = new Map<string, Uint8Array>();
  const done = new Set<string>();
  for (const request of plan.requests) addRequest(plan, request, values, done);
  return values;
}

function addRequest(
  plan: RunPlan,
  request: PlannedRequest,
  values: Map<string, Uint8Array>,
  done: Set<string>,
): void {
  const { blockSize, hashBlockSize, hashLookaheadTokens: lookahead, shape } = plan;
  const { digestBytes, encoding } = HASH_ALGORITHMS[plan.hashAlgorithm];
  const { prompt, maxTokens, cacheSalt } = request;
  const tokens = [...prompt, ...modelTruth(prompt, maxTokens, shape)];
  const hasher = new BlockHasher(plan.hashAlgorithm);
  const extras = { tokens, blockSize: hashBlockSize, cacheSalt };
  let parent: Uint8Array = noneHash(HASH_SEED, plan.hashAlgorithm);
  let kv = HASH_START;
  let prefix = cacheSalt ?? "";
  for (let chunk = 0; (chunk + 1) * blockSize + lookahead <= tokens.length; chunk++) {
    const from = chunk * blockSize;
    const block = tokens.slice(from, from + blockSize);
    for (let at = from; at < from + blockSize; at += hashBlockSize) {
      const digest = new Uint8Array(digestBytes);
      const extra = encodeExtra(at / hashBlockSize, extras, encoding);
      hasher.hashBlock(parent, tokens, at, at + hashBlockSize, extra, digest, 0, lookahead);
      parent = digest;
    }
    // Equal blocks with other tokens behind them have other names.
    const behind = tokens.slice(from + blockSize, from + blockSize + lookahead);
    prefix += `/${block.join(",")}`;
    const before = kv;
    for (const token of block) kv = feedToken(kv, token, shape);
    const named = `${prefix}>${behind.join(",")}`;
    if (done.has(named)) continue;
    done.add(named);
    const name = Buffer.from(parent).toString("hex");
    for (let rank = 0; rank < shape.ranks; rank++)
      for (let group = 0; group < shape.groups; group++)
        values.set(
          `${poolPrefix(plan, rank, group)}@${name}`,
          blockBytes(plan, block, before, laneOf(shape, rank, group)),
        );
  }
}

function blockBytes(
  plan: RunPlan,
  tokens: readonly number[],
  before: number,
  lane: number,
): Uint8Array {
  const words: number[] = [];
  let kv = before;
  for (const token of tokens) {
    words.push(kvFirst(kv, token, lane), kvSecond(kv, token, lane));
    kv = feedToken(kv, token, plan.shape);
  }
  return new Uint8Array(Int32Array.from(words).buffer);
}
