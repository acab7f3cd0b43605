import { HASH_STRIDE_WORDS } from "../blocks/layout.ts";
import type { KvGroupKind } from "../config/kv-cache-config.ts";
import { brokenInvariant } from "../errors.ts";
import { EventRingReader } from "./event-ring.ts";
import {
  CODE_GPU,
  FLAG_PARENT,
  FLAG_PLAIN,
  KIND_CLEARED,
  KIND_REMOVED,
  KIND_STORED,
  RECORD_BLOCK_SIZE,
  RECORD_BLOCKS,
  RECORD_FLAGS,
  RECORD_GROUP,
  RECORD_HEADER_WORDS,
  RECORD_KIND,
  RECORD_MEDIUM,
  RECORD_TOKENS,
} from "./event-records.ts";
import { externalBlockHash, MEDIUM_GPU, MEDIUM_POOL } from "./kv-events.ts";
import type { BlockRemoved, BlockStored, ExternalBlockHash, KvEvent } from "./kv-events.ts";

export interface EventSourceOptions {
  /** Rings of the actors that make events, in the order in which they are emptied. */
  readonly rings: readonly SharedArrayBuffer[];
  readonly digestBytes: number;
  /** Hashes go out as their low 64 bits; false: as whole digests. */
  readonly integerHashes: boolean;
  /** By group. */
  readonly groups: readonly {
    readonly kind: KvGroupKind;
    readonly slidingWindow: number | null;
  }[];
}

/** vLLM's names of the kinds of KV-cache groups. */
const SPEC_KINDS: { readonly [kind in KvGroupKind]: string } = {
  full: "full_attention",
  mla: "mla_attention",
  swa: "sliding_window",
  swa_mla: "sliding_window_mla",
  mamba: "mamba",
};

/** The events that actors have written into their rings, as vLLM words them. One thread. */
export class KvEventSource {
  readonly #options: EventSourceOptions;
  readonly #readers: readonly EventRingReader[];
  readonly #digestWords = new Int32Array(HASH_STRIDE_WORDS);
  readonly #digest: Uint8Array;
  #cleared = false;

  constructor(options: EventSourceOptions) {
    this.#options = options;
    this.#readers = options.rings.map((ring) => new EventRingReader(ring));
    this.#digest = new Uint8Array(this.#digestWords.buffer, 0, options.digestBytes);
  }

  /** What has come since the last call, at most `eventsMax` of each ring. Events of one actor are in order. */
  take(eventsMax = Infinity): KvEvent[] {
    const events: KvEvent[] = [];
    let more = false;
    for (const reader of this.#readers) {
      let taken = 0;
      for (const record of reader.drain(eventsMax)) {
        events.push(this.#event(record));
        taken++;
      }
      more ||= taken >= eventsMax;
    }
    if (this.#cleared && !more) {
      this.#cleared = false;
      events.push({ type: "AllBlocksCleared" });
    }
    return events;
  }

  /** The pool was emptied: AllBlocksCleared follows what has been told so far. */
  cleared(): void {
    this.#cleared = true;
  }

  /** Events that found their ring full, since the rings were made. */
  lostEvents(): number {
    let lost = 0;
    for (const reader of this.#readers) lost += reader.lost();
    return lost;
  }

  #event(record: Int32Array): KvEvent {
    switch (record[RECORD_KIND]) {
      case KIND_STORED:
        return this.#stored(record);
      case KIND_REMOVED:
        return this.#removed(record);
      case KIND_CLEARED:
        return { type: "AllBlocksCleared" };
      default:
        return brokenInvariant("a record of an event ring has no kind", record[RECORD_KIND]);
    }
  }

  #stored(record: Int32Array): BlockStored {
    const flags = record[RECORD_FLAGS]!;
    const blocks = record[RECORD_BLOCKS]!;
    const group = record[RECORD_GROUP]!;
    const hasParent = (flags & FLAG_PARENT) !== 0;
    const hashesAt = RECORD_HEADER_WORDS + (hasParent ? HASH_STRIDE_WORDS : 0);
    const tokensAt = hashesAt + blocks * HASH_STRIDE_WORDS;
    return {
      type: "BlockStored",
      blockHashes: this.#hashes(record, hashesAt, blocks),
      parentBlockHash: hasParent ? this.#hash(record, RECORD_HEADER_WORDS) : null,
      tokenIds: Array.from(record.subarray(tokensAt, tokensAt + record[RECORD_TOKENS]!)),
      blockSize: record[RECORD_BLOCK_SIZE]!,
      loraId: null,
      medium: mediumOf(record),
      loraName: null,
      ...(record[RECORD_MEDIUM] === CODE_GPU ? this.#localFields(group, blocks, flags) : {}),
      groupIndex: group,
    };
  }

  /** vLLM's block pool says these of its blocks; its store connector does not. */
  #localFields(group: number, blocks: number, flags: number): Partial<BlockStored> {
    const spec = this.#options.groups[group];
    return {
      ...((flags & FLAG_PLAIN) === 0
        ? {}
        : { extraKeys: Array.from({ length: blocks }, () => null) }),
      ...(spec === undefined ? {} : { kvCacheSpecKind: SPEC_KINDS[spec.kind] }),
      ...(spec === undefined || spec.slidingWindow === null
        ? {}
        : { kvCacheSpecSlidingWindow: spec.slidingWindow }),
    };
  }

  #removed(record: Int32Array): BlockRemoved {
    return {
      type: "BlockRemoved",
      blockHashes: this.#hashes(record, RECORD_HEADER_WORDS, record[RECORD_BLOCKS]!),
      medium: mediumOf(record),
      groupIndex: record[RECORD_GROUP]!,
    };
  }

  #hashes(record: Int32Array, at: number, count: number): ExternalBlockHash[] {
    return Array.from({ length: count }, (_, index) =>
      this.#hash(record, at + index * HASH_STRIDE_WORDS),
    );
  }
  #hash(record: Int32Array, at: number): ExternalBlockHash {
    this.#digestWords.set(record.subarray(at, at + HASH_STRIDE_WORDS));
    return externalBlockHash(this.#digest, this.#options.integerHashes);
  }
}

function mediumOf(record: Int32Array): string {
  return record[RECORD_MEDIUM] === CODE_GPU ? MEDIUM_GPU : MEDIUM_POOL;
}
