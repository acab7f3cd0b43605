/**
 * Plain stand-ins for the lookup, loader and saver actors over a map as pool: they do at once what they are told, with real
 * rows, hashes and bytes, and answer the scheduler.
 */
import {
  ACTOR_SCHEDULER,
  type Message,
  OUTCOME_CANCELLED,
  OUTCOME_ENGINE_ERROR,
  OUTCOME_HIT,
} from "../../src/actors/messages.ts";
import {
  JOB_BLOCK_PAGE,
  JOB_CHUNK_FIRST,
  JOB_CHUNKS,
  JOB_HASH_PAGE,
  JOB_ANSWERED_WORD,
  JOB_STATE_DONE,
  JOB_STATE_TAKEN,
  JOB_STATE_WORD,
  LOOKUP_HIT,
  LOOKUP_MISS,
  lookupWord,
  NONE,
  REQUEST_HASH_PAGE,
  REQUEST_HIT_TOKENS,
  REQUEST_LOOKUP_WORD,
  REQUEST_PROMPT_TOKENS,
  REQUEST_TOKEN_PAGE,
} from "../../src/blocks/layout.ts";
import type { Tables } from "../../src/blocks/tables.ts";
import type { EngineChannel } from "../../src/store/engine.ts";

export const BLOCK = 4;
export const KV_WORDS = 2;

/** The scheduler has none: any use of it fails. */
export const NO_ENGINE = new Proxy({} as EngineChannel, {
  get: () => {
    throw new Error("the scheduler has no engine");
  },
});

export class StandIns {
  /** Hash -> KV words of the block. */
  readonly pool = new Map<string, Int32Array>();
  /** Chunks of loads from this one on do not arrive. */
  failLoadsFrom = Infinity;
  readonly #tables: Tables;
  readonly #memory: Int32Array;
  readonly #post: (actor: number, message: Message) => void;

  constructor(tables: Tables, memory: Int32Array, post: (actor: number, message: Message) => void) {
    this.#tables = tables;
    this.#memory = memory;
    this.#post = post;
  }

  hash(tokenPage: number, hashPage: number, from: number, to: number): number {
    const { tokens, hashes } = this.#tables;
    for (let block = from; block < to; block++) {
      let state = block === 0 ? 17 : hashes.words[hashes.offset(hashPage, block - 1)]!;
      const at = hashes.offset(hashPage, block);
      for (let word = 0; word < 8; word++) {
        for (let index = 0; index < BLOCK; index++)
          state =
            Math.imul(state ^ tokens.get(tokenPage, block * BLOCK + index), 0x9e3779b1) + word;
        hashes.words[at + word] = state;
      }
    }
    return to - from;
  }

  #key(hashPage: number, chunk: number): string {
    const { hashes } = this.#tables;
    const at = hashes.offset(hashPage, chunk);
    return hashes.words.subarray(at, at + 8).join(",");
  }

  lookup(message: Message): void {
    if (
      message.kind === "discardLookup" ||
      message.kind === "lookup" ||
      message.kind === "hashRequest"
    ) {
      const { slot, generation } = message;
      const record = this.#tables.request(slot);
      const words = this.#tables.requests;
      if (message.kind === "discardLookup")
        return this.#post(ACTOR_SCHEDULER, {
          kind: "lookupDone",
          slot,
          generation,
          attempt: message.attempt,
        });
      const hashPage = words[record + REQUEST_HASH_PAGE]!;
      if (message.kind === "hashRequest") {
        const blocks = Math.floor(words[record + REQUEST_PROMPT_TOKENS]! / BLOCK);
        this.hash(words[record + REQUEST_TOKEN_PAGE]!, hashPage, 0, blocks);
        return this.#post(ACTOR_SCHEDULER, { kind: "hashed", slot, generation, blocks });
      }
      // Hashes what is not hashed yet: the question may cover more than the prompt.
      this.hash(
        words[record + REQUEST_TOKEN_PAGE]!,
        hashPage,
        0,
        Math.floor(message.tokens / BLOCK),
      );
      let chunks = 0;
      const most = Math.floor((message.tokens - 1) / BLOCK);
      while (chunks < most && this.pool.has(this.#key(hashPage, chunks))) chunks++;
      words[record + REQUEST_HIT_TOKENS] = chunks * BLOCK;
      const state = chunks > 0 ? LOOKUP_HIT : LOOKUP_MISS;
      Atomics.store(words, record + REQUEST_LOOKUP_WORD, lookupWord(message.attempt, 1, state));
      this.#post(ACTOR_SCHEDULER, {
        kind: "lookupDone",
        slot,
        generation,
        attempt: message.attempt,
      });
    }
  }

  load(message: Message, queue: Message[]): void {
    if (message.kind !== "load") return;
    const { job, ticket, worker } = message;
    const cancel = queue.findIndex((other) => other.kind === "cancelLoad" && other.job === job);
    if (cancel >= 0) queue.splice(cancel, 1);
    let bad = cancel >= 0 ? this.#tables.jobs[this.#tables.job(job) + JOB_CHUNK_FIRST]! : NONE;
    if (cancel < 0)
      this.#eachBlock(job, (chunk, block, key) => {
        const bytes = this.pool.get(key);
        if (bytes !== undefined && chunk < this.failLoadsFrom)
          this.#memory.set(bytes, block * BLOCK * KV_WORDS);
        else {
          // A block that failed half way holds anything.
          this.#memory.fill(-7, block * BLOCK * KV_WORDS, (block + 1) * BLOCK * KV_WORDS);
          if (bad === NONE) bad = chunk;
        }
      });
    const failure = cancel >= 0 ? OUTCOME_CANCELLED : OUTCOME_ENGINE_ERROR;
    Atomics.store(this.#tables.jobs, this.#tables.job(job) + JOB_ANSWERED_WORD, 1 << worker);
    Atomics.store(this.#tables.jobs, this.#tables.job(job) + JOB_STATE_WORD, JOB_STATE_DONE);
    this.#post(ACTOR_SCHEDULER, {
      kind: "loadDone",
      job,
      ticket,
      worker,
      outcome: bad === NONE ? OUTCOME_HIT : failure,
      badChunk: bad,
      memoryBlocks: 0,
      diskBlocks: 0,
      kibibytes: 0,
      microseconds: 0,
    });
  }

  save(message: Message): void {
    if (message.kind !== "save") return;
    const { job, ticket, worker } = message;
    Atomics.store(this.#tables.jobs, this.#tables.job(job) + JOB_STATE_WORD, JOB_STATE_TAKEN);
    let written = 0;
    this.#eachBlock(job, (_chunk, block, key) => {
      this.pool.set(
        key,
        this.#memory.slice(block * BLOCK * KV_WORDS, (block + 1) * BLOCK * KV_WORDS),
      );
      written++;
    });
    Atomics.store(this.#tables.jobs, this.#tables.job(job) + JOB_ANSWERED_WORD, 1 << worker);
    Atomics.store(this.#tables.jobs, this.#tables.job(job) + JOB_STATE_WORD, JOB_STATE_DONE);
    this.#post(ACTOR_SCHEDULER, {
      kind: "saveDone",
      job,
      ticket,
      worker,
      outcome: OUTCOME_HIT,
      writtenBlocks: written,
      presentBlocks: 0,
      failedBlocks: 0,
      kibibytes: 0,
      microseconds: 0,
    });
  }

  #eachBlock(job: number, visit: (chunk: number, block: number, key: string) => void): void {
    const { jobs, blocks } = this.#tables;
    const at = this.#tables.job(job);
    const first = jobs[at + JOB_CHUNK_FIRST]!;
    for (let index = 0; index < jobs[at + JOB_CHUNKS]!; index++) {
      const block = blocks.get(jobs[at + JOB_BLOCK_PAGE]!, index);
      visit(first + index, block, this.#key(jobs[at + JOB_HASH_PAGE]!, first + index));
    }
  }
}
