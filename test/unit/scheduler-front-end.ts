/** A plain front end: owns slots, token and hash rows, and keeps what it is told about each request. */
import { ACTOR_SCHEDULER, type Message } from "../../src/actors/messages.ts";
import {
  NONE,
  REQUEST_EXTRAS_PAGE,
  REQUEST_FLAGS,
  REQUEST_GENERATION,
  REQUEST_HASH_PAGE,
  REQUEST_LIVE_WORD,
  REQUEST_LOGPROBS,
  REQUEST_PROMPT_TOKENS,
  REQUEST_TOKEN_PAGE,
  REQUEST_TOKENS_MAX,
} from "../../src/blocks/layout.ts";
import type { MessageOf } from "../../src/actors/messages.ts";
import { PageAllocator } from "../../src/blocks/page-arena.ts";
import type { Tables } from "../../src/blocks/tables.ts";
import { BLOCK } from "./scheduler-stand-ins.ts";

export interface RequestId {
  readonly slot: number;
  readonly generation: number;
}

/** What the front end has of one request. */
export interface Ended {
  readonly tokens: number[];
  finished: MessageOf<"requestFinished">[];
  released: number;
}

export class FrontEnd {
  readonly #tables: Tables;
  readonly #post: (actor: number, message: Message) => void;
  readonly #tokenPages: PageAllocator;
  readonly #hashPages: PageAllocator;
  readonly #free: number[] = [];
  readonly #requests = new Map<string, Ended>();
  #generation = 0;

  constructor(tables: Tables, post: (actor: number, message: Message) => void) {
    this.#tables = tables;
    this.#post = post;
    this.#tokenPages = new PageAllocator(tables.tokens);
    this.#hashPages = new PageAllocator(tables.hashes);
    for (let slot = tables.dimensions.requestSlots - 1; slot >= 0; slot--) this.#free.push(slot);
  }

  add(prompt: readonly number[], outputTokens: number, flags: number): RequestId {
    const slot = this.#free.pop();
    if (slot === undefined) throw new Error("no slot");
    const generation = ++this.#generation;
    const record = this.#tables.request(slot);
    const words = this.#tables.requests;
    const tokensMax = prompt.length + outputTokens;
    words[record + REQUEST_GENERATION] = generation;
    words[record + REQUEST_PROMPT_TOKENS] = prompt.length;
    words[record + REQUEST_TOKENS_MAX] = tokensMax;
    words[record + REQUEST_TOKEN_PAGE] = this.#tokenPages.allocate(tokensMax);
    words[record + REQUEST_HASH_PAGE] = this.#hashPages.allocate(Math.ceil(tokensMax / BLOCK));
    words[record + REQUEST_EXTRAS_PAGE] = NONE;
    words[record + REQUEST_FLAGS] = flags;
    words[record + REQUEST_LOGPROBS] = NONE;
    prompt.forEach((token, index) =>
      this.#tables.tokens.set(words[record + REQUEST_TOKEN_PAGE]!, index, token),
    );
    Atomics.store(words, record + REQUEST_LIVE_WORD, 1);
    this.#requests.set(`${slot}.${generation}`, { tokens: [], finished: [], released: 0 });
    this.#post(ACTOR_SCHEDULER, { kind: "addRequest", slot, generation });
    return { slot, generation };
  }

  ended({ slot, generation }: RequestId): Ended {
    const request = this.#requests.get(`${slot}.${generation}`);
    if (request === undefined) throw new Error("unknown request");
    return request;
  }

  take(message: Message): void {
    if (message.kind === "tokenGenerated") {
      const { tokens } = this.ended(message);
      this.#readRow(message.slot, tokens, message.index);
      if (message.index !== tokens.length)
        throw new Error(`token ${message.index} after ${tokens.length}`);
      tokens.push(message.token);
    } else if (message.kind === "requestFinished") {
      this.#readRow(message.slot, this.ended(message).tokens, message.outputTokens);
      this.ended(message).finished.push(message);
    } else if (message.kind === "slotReleased") {
      const { slot, generation } = message;
      this.ended(message).released++;
      const record = this.#tables.request(slot);
      if (this.#tables.requests[record + REQUEST_GENERATION] !== generation)
        throw new Error("wrong generation released");
      Atomics.store(this.#tables.requests, record + REQUEST_LIVE_WORD, 0);
      this.#tokenPages.free(this.#tables.requests[record + REQUEST_TOKEN_PAGE]!);
      this.#hashPages.free(this.#tables.requests[record + REQUEST_HASH_PAGE]!);
      this.#free.push(slot);
    }
  }

  /** What a dead scheduler had published in the row and not told. */
  #readRow(slot: number, tokens: number[], count: number): void {
    const record = this.#tables.request(slot);
    const prompt = this.#tables.requests[record + REQUEST_PROMPT_TOKENS]!;
    const page = this.#tables.requests[record + REQUEST_TOKEN_PAGE]!;
    while (tokens.length < count)
      tokens.push(this.#tables.tokens.get(page, prompt + tokens.length));
  }
}
