import {
  REQUEST_BLOCK_PAGE,
  REQUEST_GENERATION,
  REQUEST_TOKEN_PAGE,
  SEQUENCE_GENERATION,
  SEQUENCE_SAMPLE,
  SEQUENCE_SLOT,
  SEQUENCE_START,
  SEQUENCE_TOKEN,
  SEQUENCE_TOKENS,
  SEQUENCE_WORDS,
  STEP_HEADER_WORDS,
  STEP_SEQUENCES,
} from "../../../blocks/layout.ts";
import type { Tables } from "../../../blocks/tables.ts";
import { ACTOR_SCHEDULER, type RunStep } from "../../messages.ts";
import type { Actor, ActorContext, Inbox } from "../../step.ts";
import type { SeededRandom } from "./random.ts";

/**
 * A model whose next token is a hash of ALL KV bytes of the sequence, reached through the block table: one wrong, missing or
 * misplaced block shows as a wrong token. A token's KV is 8 bytes: a function of the token and of all KV before it.
 */
const WORDS_PER_TOKEN = 2;
export const SIMULATED_KV_BYTES_PER_TOKEN = WORDS_PER_TOKEN * 4;

const START = 0x12345678;

function absorb(hash: number, first: number, second: number): number {
  let mixed = Math.imul(hash ^ first, 0x9e3779b1);
  mixed = Math.imul((mixed ^ (mixed >>> 15)) + second, 0x85ebca6b);
  return (mixed ^ (mixed >>> 13)) | 0;
}
function kvFirst(hash: number, token: number): number {
  return Math.imul(hash ^ token, 0xc2b2ae35) | 0;
}
function kvSecond(hash: number, token: number): number {
  return Math.imul((hash >>> 3) + token, 0x27d4eb2f) | 0;
}
function tokenOf(hash: number, vocabulary: number): number {
  return (hash >>> 0) % vocabulary;
}

/** What the model must answer to a prompt: computed without blocks, from the tokens alone. */
export function modelTruth(
  prompt: readonly number[],
  outputTokens: number,
  vocabulary: number,
): number[] {
  const output: number[] = [];
  let hash = START;
  const feed = (token: number): void => {
    hash = absorb(hash, kvFirst(hash, token), kvSecond(hash, token));
  };
  for (const token of prompt) feed(token);
  while (output.length < outputTokens) {
    const token = tokenOf(hash, vocabulary);
    output.push(token);
    feed(token);
  }
  return output;
}

export interface SimulatedModelOptions {
  /** KV memory: block b starts at word b * blockSize * WORDS_PER_TOKEN. */
  readonly memory: Int32Array;
  readonly blockSize: number;
  readonly vocabulary: number;
  readonly random: SeededRandom;
  readonly schedule: (delayMs: number, run: () => void) => void;
  readonly wake: () => void;
  readonly stepMsMax: number;
  /** Probability that a step fails and has to be run again. */
  readonly failureProbability: number;
  /** False once this instance is dead: a terminated thread writes nothing any more. */
  readonly isCurrent: (model: SimulatedModel) => boolean;
}

/** Runs steps of the shared step buffers like the real model's worker does; deaths lose the step in flight. */
export class SimulatedModel implements Actor {
  readonly #options: SimulatedModelOptions;
  readonly #queue: RunStep[] = [];
  readonly #due: { step: number; number: number }[] = [];
  #computing = 0;

  constructor(options: SimulatedModelOptions) {
    this.#options = options;
  }

  step(inbox: Inbox, tables: Tables, context: ActorContext): number {
    for (let message = inbox.next(); message !== null; message = inbox.next()) {
      if (message.kind === "runStep") this.#queue.push(message);
    }
    for (let done = this.#due.shift(); done !== undefined; done = this.#due.shift()) {
      this.#computing--;
      const status = this.#options.random.chance(this.#options.failureProbability) ? -1 : 0;
      context.send(ACTOR_SCHEDULER, { kind: "stepDone", ...done, status, microseconds: 0 });
    }
    if (this.#computing === 0) this.#begin(tables);
    return Infinity;
  }

  idle(): boolean {
    return this.#computing === 0 && this.#queue.length === 0;
  }

  /** One step after the other, in order, as the real model's thread does: the scheduler's fences rely on it. */
  #begin(tables: Tables): void {
    const next = this.#queue.shift();
    if (next === undefined) return;
    const { step, number } = next;
    this.#computing++;
    // The KV is written at some moment in between, not when the answer comes.
    const { random, schedule } = this.#options;
    schedule(random.next() * this.#options.stepMsMax, () => {
      if (!this.#options.isCurrent(this)) return;
      this.#compute(step, tables);
      schedule(random.next() * this.#options.stepMsMax, () => {
        this.#due.push({ step, number });
        this.#options.wake();
      });
    });
  }

  #compute(step: number, tables: Tables): void {
    const words = tables.steps;
    const start = tables.step(step);
    for (let index = 0; index < words[start + STEP_SEQUENCES]!; index++) {
      const at = start + STEP_HEADER_WORDS + index * SEQUENCE_WORDS;
      const request = tables.request(words[at + SEQUENCE_SLOT]!);
      if (tables.requests[request + REQUEST_GENERATION] !== words[at + SEQUENCE_GENERATION])
        continue;
      const hash = this.#sequence(
        tables,
        request,
        words[at + SEQUENCE_START]!,
        words[at + SEQUENCE_TOKENS]!,
      );
      if (words[at + SEQUENCE_SAMPLE] === 1)
        words[at + SEQUENCE_TOKEN] = tokenOf(hash, this.#options.vocabulary);
    }
  }

  #sequence(tables: Tables, request: number, from: number, count: number): number {
    const { memory, blockSize } = this.#options;
    const blockPage = tables.requests[request + REQUEST_BLOCK_PAGE]!;
    const tokenPage = tables.requests[request + REQUEST_TOKEN_PAGE]!;
    let hash = START;
    for (let position = 0; position < from + count; position++) {
      const block = tables.blocks.get(blockPage, Math.floor(position / blockSize));
      const at = (block * blockSize + (position % blockSize)) * WORDS_PER_TOKEN;
      if (position >= from) {
        const token = tables.tokens.get(tokenPage, position);
        const first = kvFirst(hash, token);
        memory[at + 1] = kvSecond(hash, token);
        memory[at] = first;
      }
      hash = absorb(hash, memory[at]!, memory[at + 1]!);
    }
    return hash;
  }
}
