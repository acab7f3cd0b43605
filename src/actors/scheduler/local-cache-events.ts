import {
  REQUEST_EXTRAS_PAGE,
  NONE,
  REQUEST_HASH_PAGE,
  REQUEST_TOKEN_PAGE,
} from "../../blocks/layout.ts";
import type { Tables } from "../../blocks/tables.ts";
import { CODE_GPU } from "../../events/event-records.ts";
import type { KvEventWriter } from "../../events/event-records.ts";

/** KV events of the local prefix cache, as vLLM's block pool makes them: what a router asks of the blocks on this instance. */
export class LocalCacheEvents {
  readonly #tables: Tables;
  readonly #writer: KvEventWriter;

  /** A successor's cache is empty: whoever listens has to forget the predecessor's blocks. */
  constructor(tables: Tables, writer: KvEventWriter, epoch: number) {
    this.#tables = tables;
    this.#writer = writer;
    if (epoch > 1) this.cleared();
  }

  /** Blocks [from, to) of the request came into the cache, in one group. */
  stored(slot: number, group: number, from: number, to: number): void {
    if (from >= to) return;
    const { requests, dimensions } = this.#tables;
    const record = this.#tables.request(slot);
    this.#writer.stored(
      {
        tokenPage: requests[record + REQUEST_TOKEN_PAGE]!,
        hashPage: requests[record + REQUEST_HASH_PAGE]!,
      },
      {
        medium: CODE_GPU,
        group,
        blockSize: dimensions.blockSize,
        firstBlock: from,
        blocks: to - from,
        plain: requests[record + REQUEST_EXTRAS_PAGE] === NONE,
      },
    );
  }

  /** A block whose digest lies at `words[offset]` left the cache. */
  removed(words: Int32Array, offset: number, group: number): void {
    this.#writer.removed(CODE_GPU, group, words, offset);
  }
  cleared(): void {
    this.#writer.cleared();
  }
}
