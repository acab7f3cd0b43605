import {
  NONE,
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
import {
  absorb,
  HASH_START,
  kvFirst,
  kvSecond,
  KV_WORDS_PER_TOKEN,
  laneOf,
  tokenOf,
  type SimulatedModelShape,
} from "./model-truth.ts";
import type { SeededRandom } from "./random.ts";

export interface SimulatedModelOptions {
  /** KV memory of each rank: block b starts at word b * blockSize * KV_WORDS_PER_TOKEN. */
  readonly memories: readonly Int32Array[];
  readonly blockSize: number;
  readonly shape: SimulatedModelShape;
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
  readonly #due: { step: number; number: number; status: number }[] = [];
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
      context.send(ACTOR_SCHEDULER, { kind: "stepDone", ...done, microseconds: 0 });
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
      const failed = random.chance(this.#options.failureProbability);
      // A step that fails has computed a part, or nothing.
      this.#compute(step, tables, failed ? random.next() : 1);
      schedule(random.next() * this.#options.stepMsMax, () => {
        this.#due.push({ step, number, status: failed ? -1 : 0 });
        this.#options.wake();
      });
    });
  }

  #compute(step: number, tables: Tables, share: number): void {
    const words = tables.steps;
    const start = tables.step(step);
    for (let index = 0; index < Math.floor(share * words[start + STEP_SEQUENCES]!); index++) {
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
        words[at + SEQUENCE_TOKEN] = tokenOf(hash, this.#options.shape.vocabulary);
    }
  }

  #sequence(tables: Tables, request: number, from: number, count: number): number {
    const tokenPage = tables.requests[request + REQUEST_TOKEN_PAGE]!;
    let hash = HASH_START;
    for (let position = 0; position < from + count; position++) {
      const token = position >= from ? tables.tokens.get(tokenPage, position) : NONE;
      hash = this.#position(tables, request, position, token, hash);
    }
    return hash;
  }

  /** Writes the KV of a token in all ranks and groups (NONE: it is there), and returns the hash that takes it in. */
  #position(
    tables: Tables,
    request: number,
    position: number,
    token: number,
    hash: number,
  ): number {
    const { memories, blockSize, shape } = this.#options;
    let next = hash;
    for (let rank = 0; rank < shape.ranks; rank++) {
      const memory = memories[rank]!;
      for (let group = 0; group < shape.groups; group++) {
        const page = tables.requests[request + REQUEST_BLOCK_PAGE + group]!;
        const block = tables.blocks.get(page, Math.floor(position / blockSize));
        const at = (block * blockSize + (position % blockSize)) * KV_WORDS_PER_TOKEN;
        if (token !== NONE) {
          const lane = laneOf(shape, rank, group);
          memory[at] = kvFirst(hash, token, lane);
          memory[at + 1] = kvSecond(hash, token, lane);
        }
        next = absorb(next, memory[at]!, memory[at + 1]!);
      }
    }
    return next;
  }
}
