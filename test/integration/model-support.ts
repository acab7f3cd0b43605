/** A small driver of the model runner for tests: hands out blocks of a plain pool and computes sequences step by step. */
import { logitsHash, logitsHashText } from "../../src/serving/model/logits-hash.ts";
import { PagedModelRunner } from "../../src/serving/model/paged-model-runner.ts";
import type { PreparedModel } from "../../src/serving/model/prepared-model.ts";

export interface TestSequence {
  readonly tokens: Int32Array;
  /** Tokens whose keys and values are in the pool. */
  computed: number;
  readonly blocks: number[];
}

export interface StepItem {
  readonly sequence: TestSequence;
  readonly count: number;
}

export class ModelHarness {
  readonly pool: Float32Array;
  readonly prepared: PreparedModel;
  readonly runner: PagedModelRunner;
  private readonly free: number[];

  private constructor(
    prepared: PreparedModel,
    runner: PagedModelRunner,
    pool: Float32Array,
    blockCount: number,
  ) {
    this.prepared = prepared;
    this.runner = runner;
    this.pool = pool;
    this.free = Array.from({ length: blockCount }, (_, index) => index);
  }

  static load(prepared: PreparedModel, blockCount: number, threads = 1): Promise<ModelHarness> {
    const pool = new Float32Array((blockCount * prepared.blockBytes) / 4);
    return ModelHarness.loadOver(prepared, pool, blockCount, threads);
  }

  /** The same over a given pool. */
  static async loadOver(
    prepared: PreparedModel,
    pool: Float32Array,
    blockCount: number,
    threads = 1,
  ): Promise<ModelHarness> {
    const runner = await PagedModelRunner.load(prepared, { kvPool: pool, blockCount, threads });
    return new ModelHarness(prepared, runner, pool, blockCount);
  }

  /** A sequence without anything computed. */
  sequence(tokens: Int32Array): TestSequence {
    return { tokens, computed: 0, blocks: [] };
  }

  /** A sequence that finds its first `blockCount` blocks already computed, in the very blocks of `source`. */
  sharing(source: TestSequence, blockCount: number, tokens = source.tokens): TestSequence {
    return {
      tokens,
      computed: blockCount * this.prepared.blockSize,
      blocks: source.blocks.slice(0, blockCount),
    };
  }

  /** Gives back the blocks after the first `keep`; their contents stay, as they do in a real pool. */
  release(sequence: TestSequence, keep = 0): void {
    this.free.push(...sequence.blocks.splice(keep));
  }

  blockBytes(block: number): Uint8Array {
    return new Uint8Array(
      this.pool.buffer,
      block * this.prepared.blockBytes,
      this.prepared.blockBytes,
    );
  }

  /** One step; returns each item's logits. */
  async step(...items: readonly StepItem[]): Promise<readonly Float32Array[]> {
    const vocabulary = this.prepared.config.vocabularySize;
    let stride = 1;
    for (const { sequence, count } of items) {
      const needed = Math.ceil((sequence.computed + count) / this.prepared.blockSize);
      while (sequence.blocks.length < needed) sequence.blocks.push(this.takeBlock());
      stride = Math.max(stride, sequence.blocks.length);
    }
    const batch = {
      sequenceCount: items.length,
      tokenIds: Int32Array.from(
        items.flatMap(({ sequence, count }) => [
          ...sequence.tokens.subarray(sequence.computed, sequence.computed + count),
        ]),
      ),
      tokenCounts: Int32Array.from(items, ({ count }) => count),
      startPositions: Int32Array.from(items, ({ sequence }) => sequence.computed),
      blockTable: new Int32Array(items.length * stride).fill(-1),
      blockTableStride: stride,
      logits: new Float32Array(items.length * vocabulary),
    };
    items.forEach(({ sequence }, index) => batch.blockTable.set(sequence.blocks, index * stride));
    await this.runner.runStep(batch);
    for (const { sequence, count } of items) sequence.computed += count;
    return items.map((_, index) =>
      batch.logits.subarray(index * vocabulary, (index + 1) * vocabulary),
    );
  }

  /** Computes the rest of a sequence in chunks of at most `chunk` tokens and returns the hash of the last logits. */
  async finish(sequence: TestSequence, chunk = Number.MAX_SAFE_INTEGER): Promise<string> {
    let hash = "";
    while (sequence.computed < sequence.tokens.length) {
      const count = Math.min(chunk, sequence.tokens.length - sequence.computed);
      const [logits] = await this.step({ sequence, count });
      hash = hashOf(logits);
    }
    return hash;
  }

  private takeBlock(): number {
    const block = this.free.pop();
    if (block === undefined) throw new Error("the test's pool is too small");
    return block;
  }
}

export function hashOf(logits: Float32Array | undefined): string {
  if (logits === undefined) throw new Error("no logits");
  const hash = new Int32Array(2);
  logitsHash(logits, hash);
  return logitsHashText(hash);
}

/** Reproducible token ids below `vocabulary`. */
export function someTokens(count: number, vocabulary: number, seed = 1): Int32Array {
  let state = seed;
  return Int32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * vocabulary);
  });
}
