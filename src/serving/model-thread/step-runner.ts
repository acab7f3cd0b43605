import {
  REQUEST_BLOCK_PAGE,
  REQUEST_LOGPROBS,
  REQUEST_SEED,
  REQUEST_TEMPERATURE_F32,
  REQUEST_TOKEN_PAGE,
  REQUEST_TOP_P_F32,
  SEQUENCE_LOGITS_HASH,
  SEQUENCE_LOGPROB_F32,
  SEQUENCE_SAMPLE,
  SEQUENCE_SLOT,
  SEQUENCE_START,
  SEQUENCE_TOKEN,
  SEQUENCE_TOKENS,
  SEQUENCE_TOP_COUNT,
  SEQUENCE_TOP_LOGPROBS_F32,
  SEQUENCE_TOP_TOKENS,
  SEQUENCE_WORDS,
  STEP_HEADER_WORDS,
  STEP_SEQUENCES,
} from "../../blocks/layout.ts";
import { ChainCursor } from "../../blocks/page-arena.ts";
import type { Tables } from "../../blocks/tables.ts";
import { logitsHash } from "../model/logits-hash.ts";
import type { PagedModelRunner } from "../model/paged-model-runner.ts";
import { makeSampledToken, sampleToken } from "../model/sampler.ts";
import type { StepBatch } from "../model/step-batch.ts";

export interface StepRunnerOptions {
  readonly runner: PagedModelRunner;
  readonly tables: Tables;
  readonly sequencesMax: number;
  readonly tokensPerStepMax: number;
  readonly contextTokensMax: number;
  readonly vocabularySize: number;
}

/** Computes one step buffer with the real model: reads tokens and block rows from the tables, writes sampled tokens back. */
export class StepRunner {
  readonly #options: StepRunnerOptions;
  readonly #batch: StepBatch;
  readonly #tokens: ChainCursor;
  readonly #blocks: ChainCursor;
  readonly #sampled = makeSampledToken();

  constructor(options: StepRunnerOptions) {
    this.#options = options;
    const { sequencesMax, tokensPerStepMax, contextTokensMax, vocabularySize, tables } = options;
    const stride = Math.ceil(contextTokensMax / tables.dimensions.blockSize);
    this.#batch = {
      sequenceCount: 0,
      tokenIds: new Int32Array(tokensPerStepMax),
      tokenCounts: new Int32Array(sequencesMax),
      startPositions: new Int32Array(sequencesMax),
      blockTable: new Int32Array(sequencesMax * stride),
      blockTableStride: stride,
      logits: new Float32Array(sequencesMax * vocabularySize),
    };
    this.#tokens = new ChainCursor(tables.tokens);
    this.#blocks = new ChainCursor(tables.blocks);
  }

  /** Runs step buffer `step`; its sequences' results are complete when the promise resolves. Returns the tokens computed. */
  async run(step: number): Promise<number> {
    const start = this.#options.tables.step(step);
    const tokens = this.#gather(start);
    if (tokens > 0) await this.#options.runner.runStep(this.#batch);
    for (let index = 0; index < this.#batch.sequenceCount; index++) {
      const at = start + STEP_HEADER_WORDS + index * SEQUENCE_WORDS;
      if (this.#options.tables.steps[at + SEQUENCE_SAMPLE] === 1) this.#sample(index, at);
    }
    return tokens;
  }

  #gather(start: number): number {
    const { tables } = this.#options;
    const batch = this.#batch;
    batch.sequenceCount = tables.steps[start + STEP_SEQUENCES]!;
    let filled = 0;
    for (let index = 0; index < batch.sequenceCount; index++) {
      const at = start + STEP_HEADER_WORDS + index * SEQUENCE_WORDS;
      const request = tables.request(tables.steps[at + SEQUENCE_SLOT]!);
      const from = tables.steps[at + SEQUENCE_START]!;
      const count = tables.steps[at + SEQUENCE_TOKENS]!;
      batch.startPositions[index] = from;
      batch.tokenCounts[index] = count;
      this.#tokens.seek(tables.requests[request + REQUEST_TOKEN_PAGE]!, from);
      for (let token = 0; token < count; token++) {
        batch.tokenIds[filled++] = tables.tokens.words[this.#tokens.advance()]!;
      }
      const blocks = Math.ceil((from + count) / tables.dimensions.blockSize);
      this.#blocks.seek(tables.requests[request + REQUEST_BLOCK_PAGE]!, 0);
      const row = index * batch.blockTableStride;
      for (let block = 0; block < blocks; block++) {
        batch.blockTable[row + block] = tables.blocks.words[this.#blocks.advance()]!;
      }
    }
    return filled;
  }

  #sample(index: number, at: number): void {
    const { tables, vocabularySize } = this.#options;
    const { steps, stepsF32, requests, requestsF32 } = tables;
    const request = tables.request(steps[at + SEQUENCE_SLOT]!);
    const logits = this.#batch.logits.subarray(
      index * vocabularySize,
      (index + 1) * vocabularySize,
    );
    const topLogprobs = requests[request + REQUEST_LOGPROBS]!;
    const parameters = {
      temperature: requestsF32[request + REQUEST_TEMPERATURE_F32]!,
      topP: requestsF32[request + REQUEST_TOP_P_F32]!,
      seed: requests[request + REQUEST_SEED]!,
      topLogprobs: topLogprobs < 0 ? undefined : topLogprobs,
    };
    const tokenIndex = steps[at + SEQUENCE_START]! + steps[at + SEQUENCE_TOKENS]!;
    sampleToken(logits, parameters, tokenIndex, this.#sampled);
    steps[at + SEQUENCE_TOKEN] = this.#sampled.tokenId;
    stepsF32[at + SEQUENCE_LOGPROB_F32] = this.#sampled.logprob;
    logitsHash(logits, steps, at + SEQUENCE_LOGITS_HASH);
    steps[at + SEQUENCE_TOP_COUNT] = this.#sampled.topCount;
    for (let rank = 0; rank < this.#sampled.topCount; rank++) {
      steps[at + SEQUENCE_TOP_TOKENS + rank] = this.#sampled.topTokenIds[rank]!;
      stepsF32[at + SEQUENCE_TOP_LOGPROBS_F32 + rank] = this.#sampled.topLogprobs[rank]!;
    }
  }
}
