import { MooncakeKvError } from "../errors.ts";
import {
  NONE,
  REQUEST_EXTRAS_PAGE,
  REQUEST_FLAGS,
  REQUEST_GENERATION,
  REQUEST_HASH_PAGE,
  REQUEST_LIVE_WORD,
  REQUEST_LOGPROBS,
  REQUEST_PROMPT_TOKENS,
  REQUEST_SEED,
  REQUEST_TEMPERATURE_F32,
  REQUEST_TOKEN_PAGE,
  REQUEST_TOKENS_MAX,
  REQUEST_TOP_P_F32,
} from "./layout.ts";
import { PageAllocator } from "./page-arena.ts";
import type { PageArena } from "./page-arena.ts";
import type { Tables } from "./tables.ts";

export interface NewRequest {
  /** Prompt token ids; copied, once. */
  readonly tokens: ArrayLike<number>;
  /** Prompt tokens plus the most tokens that may be generated: the rows get room for that. */
  readonly tokensMax: number;
  /** Words of the extra-key stream (keys/block-extra.ts) for the leading blocks; null or absent when no block has any. */
  readonly extras?: Int32Array | null;
  readonly sampling?: RequestSampling;
  /** REQUEST_FLAG_ bits. */
  readonly flags?: number;
}
export interface RequestSampling {
  readonly temperature: number;
  readonly topP: number;
  /** Int32. */
  readonly seed: number;
  /** Wanted top log-probabilities a token, NONE for none at all. */
  readonly logprobs: number;
}
export interface RequestAdded {
  readonly ok: true;
  readonly slot: number;
  readonly generation: number;
}
export interface RequestRefused {
  readonly ok: false;
  /** CAPACITY: try again when others have ended. TOO_LONG: never fits. */
  readonly reason: "CAPACITY" | "TOO_LONG";
  readonly remedy: string;
}
export interface SlotUsage {
  readonly slots: number;
  readonly tokenPages: number;
  readonly hashPages: number;
}

const GREEDY: RequestSampling = { temperature: 0, topP: 1, seed: 0, logprobs: NONE };

/**
 * Owner of request slots, token pages and hash pages: the front end, or the thread that attached the connector. The caller
 * announces an added request to the scheduler side, and releases its slot only when nothing of it is in flight any more.
 */
export class RequestSlots {
  readonly #tables: Tables;
  readonly #tokens: PageAllocator;
  readonly #hashes: PageAllocator;
  /** Free slots as a ring, oldest first: late messages of a slot's last request meet its next one as rarely as possible. */
  readonly #free: Int32Array;
  #freeHead = 0;
  #freeCount: number;

  /** Slots that are live already belong to a former owner, which died: they keep their pages until they are released here. */
  constructor(tables: Tables) {
    const { requestSlots } = tables.dimensions;
    const live: number[] = [];
    this.#tables = tables;
    this.#free = new Int32Array(requestSlots);
    this.#freeCount = 0;
    for (let slot = 0; slot < requestSlots; slot++) {
      // Pairs with the former owner's store: the record of a live slot is whole.
      const used = Atomics.load(tables.requests, tables.request(slot) + REQUEST_LIVE_WORD) === 1;
      if (used) live.push(slot);
      else this.#free[this.#freeCount++] = slot;
    }
    const pages = (word: number): number[] =>
      live.map((slot) => tables.requests[tables.request(slot) + word]!);
    this.#tokens = new PageAllocator(tables.tokens);
    this.#hashes = new PageAllocator(tables.hashes);
    if (live.length === 0) return;
    this.#tokens.adopt([...pages(REQUEST_TOKEN_PAGE), ...pages(REQUEST_EXTRAS_PAGE)]);
    this.#hashes.adopt(pages(REQUEST_HASH_PAGE));
  }

  /**
   * Fills record line 0, token row and hash row of a free slot and publishes it live; or says why not, changing nothing.
   * Throws INVALID_VALUE for an empty prompt and for a tokensMax below the prompt.
   */
  addRequest(request: NewRequest): RequestAdded | RequestRefused {
    const { tokensPerRequestMax, hashBlockSize } = this.#tables.dimensions;
    const { tokens, tokensMax } = request;
    check(tokens.length, tokensMax);
    if (tokensMax > tokensPerRequestMax)
      return tooLong(tokens.length, tokensMax, tokensPerRequestMax);
    if (this.#freeCount === 0) return fullOf("request slots");
    const extras = request.extras ?? null;
    const hashBlocks = Math.floor(tokensMax / hashBlockSize);
    const extraWords = extras === null ? 0 : paddedWords(extras, hashBlocks);
    const pages =
      this.#tokens.pagesFor(tokensMax) + (extras === null ? 0 : this.#tokens.pagesFor(extraWords));
    if (pages > this.#tokens.freePages()) return fullOf("token pages");
    const hashPage = this.#hashes.allocate(hashBlocks);
    if (hashPage === NONE) return fullOf("hash pages");
    const tokenPage = this.#tokens.allocate(tokensMax);
    const extrasPage = extras === null ? NONE : this.#tokens.allocate(extraWords);
    copyRow(this.#tables.tokens, tokenPage, tokens, tokens.length);
    // Blocks past the given stream have no extra key; hashing reads their length word all the same.
    if (extras !== null) copyRow(this.#tables.tokens, extrasPage, extras, extraWords);
    return this.#publish(request, tokenPage, hashPage, extrasPage);
  }

  /** Takes back a slot: `slotReleased` has come, or `inFlight` is 0. */
  release(slot: number): void {
    const words = this.#tables.requests;
    const at = this.#tables.request(slot);
    if (words[at + REQUEST_LIVE_WORD] !== 1) {
      throw new MooncakeKvError({
        code: "UNKNOWN_REQUEST",
        field: "slot",
        value: slot,
        problem: "is not in use",
        remedy: "Release each slot once.",
      });
    }
    // Pairs with a restarted actor's scan: the rows are nobody's from here on.
    Atomics.store(words, at + REQUEST_LIVE_WORD, 0);
    this.#tokens.free(words[at + REQUEST_TOKEN_PAGE]!);
    this.#hashes.free(words[at + REQUEST_HASH_PAGE]!);
    this.#tokens.free(words[at + REQUEST_EXTRAS_PAGE]!);
    this.#free[(this.#freeHead + this.#freeCount++) % this.#free.length] = slot;
  }

  /** Gauges: what is in use. All zero at idle. */
  usage(): SlotUsage {
    return {
      slots: this.#free.length - this.#freeCount,
      tokenPages: this.#tokens.usedPages(),
      hashPages: this.#hashes.usedPages(),
    };
  }

  #publish(
    request: NewRequest,
    tokenPage: number,
    hashPage: number,
    extrasPage: number,
  ): RequestAdded {
    const slot = this.#free[this.#freeHead]!;
    this.#freeHead = (this.#freeHead + 1) % this.#free.length;
    this.#freeCount--;
    const { requests: words, requestsF32: floats } = this.#tables;
    const at = this.#tables.request(slot);
    const generation = (words[at + REQUEST_GENERATION]! + 1) | 0;
    const sampling = request.sampling ?? GREEDY;
    words[at + REQUEST_GENERATION] = generation;
    words[at + REQUEST_PROMPT_TOKENS] = request.tokens.length;
    words[at + REQUEST_TOKENS_MAX] = request.tokensMax;
    words[at + REQUEST_TOKEN_PAGE] = tokenPage;
    words[at + REQUEST_HASH_PAGE] = hashPage;
    words[at + REQUEST_EXTRAS_PAGE] = extrasPage;
    words[at + REQUEST_FLAGS] = request.flags ?? 0;
    floats[at + REQUEST_TEMPERATURE_F32] = sampling.temperature;
    floats[at + REQUEST_TOP_P_F32] = sampling.topP;
    words[at + REQUEST_SEED] = sampling.seed;
    words[at + REQUEST_LOGPROBS] = sampling.logprobs;
    // Publishes the record; pairs with a restarted actor's scan. Running actors learn of it by message.
    Atomics.store(words, at + REQUEST_LIVE_WORD, 1);
    return { ok: true, slot, generation };
  }
}

/** Writes `count` entries of a row, page by page; entries that `values` lacks are 0. */
function copyRow(arena: PageArena, first: number, values: ArrayLike<number>, count: number): void {
  for (let from = 0, page = first; from < count; from += arena.entriesPerPage) {
    const at = arena.offset(page, 0);
    const end = Math.min(count, from + arena.entriesPerPage);
    if (values instanceof Int32Array && end <= values.length)
      arena.words.set(values.subarray(from, end), at);
    else
      for (let index = from; index < end; index++)
        arena.words[at + index - from] = values[index] ?? 0;
    page = arena.next(page);
  }
}

/** Words of the stream when every block up to `blocks` has at least its length word. */
function paddedWords(extras: Int32Array, blocks: number): number {
  let given = 0;
  for (let word = 0; word < extras.length; given++) word += 1 + Math.ceil(extras[word]! / 4);
  return extras.length + Math.max(0, blocks - given);
}

function check(promptTokens: number, tokensMax: number): void {
  if (promptTokens > 0 && tokensMax >= promptTokens) return;
  throw new MooncakeKvError({
    code: "INVALID_VALUE",
    field: promptTokens === 0 ? "tokens" : "tokensMax",
    value: promptTokens === 0 ? promptTokens : tokensMax,
    problem: promptTokens === 0 ? "is empty" : `is below the prompt's ${promptTokens} tokens`,
    remedy: "Give at least one prompt token, and room for the whole prompt.",
  });
}

function fullOf(what: string): RequestRefused {
  const remedy = `All ${what} are in use: try again when a request has ended, or make the tables larger.`;
  return { ok: false, reason: "CAPACITY", remedy };
}

function tooLong(promptTokens: number, tokensMax: number, limit: number): RequestRefused {
  const remedy =
    promptTokens > limit
      ? `Shorten the prompt of ${promptTokens} tokens to at most ${limit}.`
      : `Ask for at most ${limit - promptTokens} tokens after the prompt instead of ${tokensMax - promptTokens}.`;
  return { ok: false, reason: "TOO_LONG", remedy };
}
