import type { LookupReply, LookupRequest } from "../../../connector/lookup-wire.ts";
import { membershipRefusal } from "../../../connector/membership.ts";
import { writeQuestion } from "../../../connector/lookup-question.ts";
import {
  LOOKUP_ENGINE_ERROR,
  LOOKUP_HIT,
  LOOKUP_MISS,
  lookupAttempt,
  lookupState,
  REQUEST_HASH_PAGE,
  REQUEST_HIT_TOKENS,
  REQUEST_LIVE_WORD,
  REQUEST_LOOKUP_ASKED_WORD,
  REQUEST_LOOKUP_WORD,
  REQUEST_TAIL_TOKENS,
} from "../../../blocks/layout.ts";
import { ChainCursor } from "../../../blocks/page-arena.ts";
import { RequestSlots } from "../../../blocks/request-slots.ts";
import type { TableDimensions, Tables } from "../../../blocks/tables.ts";
import { brokenInvariant } from "../../../errors.ts";
import { NO_TRACE } from "../../../trace/events.ts";
import { OUTCOME_NONE, type Message } from "../../messages.ts";
import type { ActorContext, ActorInspection, Inbox } from "../../step.ts";
import { LookupActor, type LookupOptions } from "../lookup-actor.ts";

const MISS: LookupReply = { hitTokens: 0, tails: [] };
/** Questions in hand at a time. One that was given up keeps its place until the engine has given its batches back. */
const FOREIGN_SLOTS = 16;

/** Tables for `ForeignLookups`, beside those of the process's own requests. */
export function foreignDimensions(own: TableDimensions): TableDimensions {
  const tokensMax = FOREIGN_SLOTS * own.tokensPerRequestMax;
  const nothingElse = { jobSlots: 1, blockCount: 1, stepSequencesMax: 0 };
  return { ...own, ...nothingElse, requestSlots: FOREIGN_SLOTS, tokensMax };
}

/** Why a question was answered with 0 tokens although nobody asked the engine, or it did not answer. */
export type ForeignFailure = "busy" | "timeout" | "engine_error" | "wrong_hashes" | "closed";

export interface ForeignOptions extends Omit<LookupOptions, "remote"> {
  /** Of foreign questions alone: nobody else has slots or pages in them. */
  readonly tables: Tables;
  /** Of this pool: hashes of another length name nothing in it. */
  readonly digestBytes: number;
  readonly timeoutMs: number;
  /** A MEMBERSHIP_ number: who asks here loads what this process vouches for. */
  readonly readMembership: () => number;
}
/** What the lookup actor of foreign questions gets from outside. */
export type ForeignContext = Pick<ActorContext, "epoch" | "nowMs" | "random" | "log" | "engine">;

type Answered = (reply: LookupReply, failure: ForeignFailure | null) => void;
interface Question {
  readonly generation: number;
  readonly attempt: number;
  readonly deadlineMs: number;
  /** null: it was answered by its timeout already. */
  answered: Answered | null;
}

/**
 * Lookups of other processes, which bring their hashes along. Each gets a slot and a hash row in tables of their own, and a lookup
 * actor of their own asks the engine, so that no request of this process ever waits for them or shares a record with them. As in
 * vLLM, whatever goes wrong is answered with 0 tokens; here it is also counted, and never takes longer than the timeout.
 */
export class ForeignLookups implements Inbox {
  readonly #options: ForeignOptions;
  readonly #context: ActorContext;
  readonly #actor: LookupActor;
  readonly #slots: RequestSlots;
  readonly #cursor: ChainCursor;
  readonly #questions: (Question | null)[];
  readonly #messages: Message[] = [];
  readonly #done: Message[] = [];

  constructor(options: ForeignOptions, context: ForeignContext) {
    const { tables } = options;
    this.#options = options;
    this.#actor = new LookupActor(options);
    this.#slots = new RequestSlots(tables);
    this.#cursor = new ChainCursor(tables.hashes);
    this.#questions = Array.from({ length: tables.dimensions.requestSlots }, () => null);
    this.#context = innerContext(tables, context, this.#done);
    // Those whom a predecessor would have answered are gone with its socket.
    for (let slot = 0; slot < this.#questions.length; slot++) {
      // Pairs with the predecessor's store when it wrote the record.
      if (Atomics.load(tables.requests, tables.request(slot) + REQUEST_LIVE_WORD) === 1)
        this.#slots.release(slot);
    }
  }

  next(): Message | null {
    return this.#messages.shift() ?? null;
  }

  inspect(nowMs: number): ActorInspection {
    return this.#actor.inspect(nowMs);
  }

  /** `answered` is called once, from this call or from a later `step`. Call `step` afterwards. */
  ask(request: LookupRequest, answered: Answered): void {
    const { tables, digestBytes, timeoutMs, readMembership } = this.#options;
    const { hashBlockSize, tokensPerRequestMax } = tables.dimensions;
    if (request.hashes.byteLength === 0) return answered(MISS, null);
    if (membershipRefusal(readMembership()) !== OUTCOME_NONE) return answered(MISS, "closed");
    if (request.hashBytes !== digestBytes) return answered(MISS, "wrong_hashes");
    // More than a row holds is cut off: the answer is about what is left.
    const hashesMax = Math.floor(tokensPerRequestMax / hashBlockSize);
    const hashes = Math.min(request.hashes.byteLength / digestBytes, hashesMax);
    const tokens = Math.min(request.tokens, tokensPerRequestMax);
    const added = this.#slots.addRequest({
      // Their tokens are not here; a prompt of one token has nothing to hash.
      tokens: [0],
      tokensMax: hashes * hashBlockSize,
    });
    if (!added.ok) return answered(MISS, "busy");
    const { slot, generation } = added;
    this.#writeHashes(slot, request.hashes, hashes);
    const deadlineMs = this.#context.nowMs() + timeoutMs;
    const { words, at } = this.#record(slot);
    // Attempts count up over generations and incarnations: see lookupWord.
    const attempt = (lookupAttempt(words[at + REQUEST_LOOKUP_ASKED_WORD]!) + 1) & 0xffff;
    this.#questions[slot] = { generation, attempt, deadlineMs, answered };
    this.#messages.push(writeQuestion(tables, slot, attempt, tokens, hashes));
  }

  /** Takes what the engine has completed and gives up what is overdue. Returns when it wants to be called again. */
  step(): number {
    const nextMs = this.#actor.step(this, this.#options.tables, this.#context);
    for (let message = this.#done.shift(); message !== undefined; message = this.#done.shift())
      if (message.kind === "lookupDone") this.#settle(message.slot, message.attempt);
    return Math.min(nextMs, this.#giveUpOverdue());
  }

  #settle(slot: number, attempt: number): void {
    const question = this.#questions[slot];
    if (question === null || question === undefined) return;
    this.#questions[slot] = null;
    const { words, at } = this.#record(slot);
    // Pairs with the lookup actor's store; it runs in this very thread.
    const word = Atomics.load(words, at + REQUEST_LOOKUP_WORD);
    const state = lookupAttempt(word) === attempt ? lookupState(word) : LOOKUP_ENGINE_ERROR;
    const answered = state === LOOKUP_HIT || state === LOOKUP_MISS;
    question.answered?.(
      state === LOOKUP_HIT ? this.#hit(slot) : MISS,
      answered ? null : "engine_error",
    );
    this.#slots.release(slot);
  }

  /** vLLM names the last block of every group, those too whose name is the hit's own. */
  #hit(slot: number): LookupReply {
    const { words, at } = this.#record(slot);
    const { rules } = this.#options;
    const hitTokens = words[at + REQUEST_HIT_TOKENS]!;
    const tails = rules.groups.map((_, group) => {
      const planned = words[at + REQUEST_TAIL_TOKENS + group]!;
      return [group, rules.uniform ? hitTokens : planned] as const;
    });
    return { hitTokens, tails };
  }

  /** A slot stays in use until the engine has given its last batch back, long after its asker was answered. */
  #giveUpOverdue(): number {
    const nowMs = this.#context.nowMs();
    let nextMs = Infinity;
    for (let slot = 0; slot < this.#questions.length; slot++) {
      const question = this.#questions[slot];
      if (question === null || question === undefined || question.answered === null) continue;
      if (nowMs < question.deadlineMs) nextMs = Math.min(nextMs, question.deadlineMs);
      else {
        question.answered(MISS, "timeout");
        question.answered = null;
        const { generation, attempt } = question;
        this.#messages.push({ kind: "discardLookup", slot, generation, attempt });
        nextMs = nowMs;
      }
    }
    return nextMs;
  }

  #writeHashes(slot: number, hashes: Uint8Array, count: number): void {
    const { digestBytes, tables } = this.#options;
    const { words, at } = this.#record(slot);
    const { buffer, byteOffset, byteLength } = tables.hashes.words;
    const bytes = new Uint8Array(buffer, byteOffset, byteLength);
    const cursor = this.#cursor.seek(words[at + REQUEST_HASH_PAGE]!, 0);
    for (let block = 0; block < count; block++) {
      const from = block * digestBytes;
      bytes.set(hashes.subarray(from, from + digestBytes), cursor.advance() * 4);
    }
  }

  #record(slot: number): { readonly words: Int32Array; readonly at: number } {
    const { tables } = this.#options;
    return { words: tables.requests, at: tables.request(slot) };
  }
}

/** The only message of such an actor is `lookupDone`, and nothing of it is traced: slots of these tables are no requests. */
function innerContext(tables: Tables, context: ForeignContext, done: Message[]): ActorContext {
  return {
    epoch: context.epoch,
    nowMs: () => context.nowMs(),
    random: () => context.random(),
    log: context.log,
    trace: NO_TRACE,
    get engine() {
      return context.engine;
    },
    send: (_, message) => void done.push(message),
    room: () => tables.dimensions.requestSlots,
    // Pairs with the lookup actor's publishing store.
    readLookup: (slot) => Atomics.load(tables.requests, tables.request(slot) + REQUEST_LOOKUP_WORD),
    hashBlocks: () =>
      brokenInvariant("foreign hashes are not computed here", tables.dimensions.requestSlots),
  };
}
