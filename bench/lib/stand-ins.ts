/**
 * What surrounds a measured scheduler in its own thread, as cheap as can be and always outside the measured time: a model
 * that fills the step buffer, a lookup actor that hashes for real and answers late, a saver that is always done at once.
 */
import type { Mailbox } from "../../src/actors/mailbox/mailbox.ts";
import {
  ACTOR_SCHEDULER,
  type Lookup,
  type Message,
  OUTCOME_HIT,
} from "../../src/actors/messages.ts";
import {
  JOB_CHUNKS,
  LOOKUP_MISS,
  lookupWord,
  REQUEST_EXTRAS_PAGE,
  REQUEST_HASH_PAGE,
  REQUEST_HIT_TOKENS,
  REQUEST_LOOKUP_WORD,
  REQUEST_PROMPT_TOKENS,
  REQUEST_TOKEN_PAGE,
  SEQUENCE_SAMPLE,
  SEQUENCE_TOKEN,
  SEQUENCE_WORDS,
  STEP_HEADER_WORDS,
  STEP_SEQUENCES,
} from "../../src/blocks/layout.ts";
import type { Tables } from "../../src/blocks/tables.ts";

type Send = (actor: number, message: Message) => void;
export type HashBlocks = (
  tokenPage: number,
  hashPage: number,
  extrasPage: number,
  fromBlock: number,
  toBlock: number,
) => number;

/** Answers each step with made-up tokens. */
export function runModel(mailbox: Mailbox, tables: Tables, send: Send): void {
  const words = tables.steps;
  for (let message = mailbox.pop(); message !== null; message = mailbox.pop()) {
    if (message.kind !== "runStep") continue;
    const { step, number } = message;
    const start = tables.step(step);
    for (let index = 0; index < words[start + STEP_SEQUENCES]!; index++) {
      const at = start + STEP_HEADER_WORDS + index * SEQUENCE_WORDS;
      if (words[at + SEQUENCE_SAMPLE] === 1) words[at + SEQUENCE_TOKEN] = 5 + (number % 1000);
    }
    send(ACTOR_SCHEDULER, { kind: "stepDone", step, number, status: 0, microseconds: 0 });
  }
}

/** Every block is saved as soon as it is asked for. */
export function runSaver(mailbox: Mailbox, tables: Tables, send: Send): void {
  for (let message = mailbox.pop(); message !== null; message = mailbox.pop()) {
    if (message.kind !== "save") continue;
    const { job, ticket, worker } = message;
    send(ACTOR_SCHEDULER, {
      kind: "saveDone",
      job,
      ticket,
      worker,
      outcome: OUTCOME_HIT,
      writtenBlocks: tables.jobs[tables.job(job) + JOB_CHUNKS]!,
      presentBlocks: 0,
      failedBlocks: 0,
      kibibytes: 0,
      microseconds: 0,
    });
  }
}

/** Hashes at once; answers every lookup with a miss, `lookupMs` after it was asked. */
export class SlowLookups {
  readonly #tables: Tables;
  readonly #hashBlocks: HashBlocks;
  readonly #lookupMs: number;
  /** In the order of their due times. */
  #open: { readonly dueMs: number; readonly question: Lookup }[] = [];

  constructor(tables: Tables, hashBlocks: HashBlocks, lookupMs: number) {
    this.#tables = tables;
    this.#hashBlocks = hashBlocks;
    this.#lookupMs = lookupMs;
  }

  get open(): number {
    return this.#open.length;
  }

  turn(mailbox: Mailbox, nowMs: number, send: Send): void {
    for (let message = mailbox.pop(); message !== null; message = mailbox.pop()) {
      if (message.kind === "hashRequest") this.#hash(message.slot, message.generation, send);
      else if (message.kind === "lookup")
        this.#open.push({ dueMs: nowMs + this.#lookupMs, question: message });
      else if (message.kind === "discardLookup") this.#discard(message.slot, message.attempt, send);
    }
    let due = 0;
    while (due < this.#open.length && this.#open[due]!.dueMs <= nowMs) {
      const { question } = this.#open[due++]!;
      publishMiss(this.#tables, question.slot, question.attempt);
      this.#done(question, send);
    }
    if (due > 0) this.#open = this.#open.slice(due);
  }

  #hash(slot: number, generation: number, send: Send): void {
    const blocks = hashPrompt(this.#tables, slot, this.#hashBlocks);
    send(ACTOR_SCHEDULER, { kind: "hashed", slot, generation, blocks });
  }

  /** A question that is answered already has had its lookupDone. */
  #discard(slot: number, attempt: number, send: Send): void {
    const at = this.#open.findIndex(
      ({ question }) => question.slot === slot && question.attempt === attempt,
    );
    const [given] = at < 0 ? [] : this.#open.splice(at, 1);
    if (given !== undefined) this.#done(given.question, send);
  }

  #done({ slot, generation, attempt }: Lookup, send: Send): void {
    send(ACTOR_SCHEDULER, { kind: "lookupDone", slot, generation, attempt });
  }
}

/** Hashes the prompt's blocks as the lookup actor does; returns their number. */
export function hashPrompt(tables: Tables, slot: number, hashBlocks: HashBlocks): number {
  const words = tables.requests;
  const at = tables.request(slot);
  const blocks = Math.floor(words[at + REQUEST_PROMPT_TOKENS]! / tables.dimensions.hashBlockSize);
  const { [at + REQUEST_TOKEN_PAGE]: tokens, [at + REQUEST_HASH_PAGE]: hashes } = words;
  hashBlocks(tokens!, hashes!, words[at + REQUEST_EXTRAS_PAGE]!, 0, blocks);
  return blocks;
}

export function publishMiss(tables: Tables, slot: number, attempt: number): void {
  const at = tables.request(slot);
  tables.requests[at + REQUEST_HIT_TOKENS] = 0;
  // Pairs with the scheduler side's Atomics.load of the word.
  Atomics.store(tables.requests, at + REQUEST_LOOKUP_WORD, lookupWord(attempt, 1, LOOKUP_MISS));
}
