import { HASH_STRIDE_WORDS } from "../blocks/layout.ts";
import { ChainCursor } from "../blocks/page-arena.ts";
import type { PageArena } from "../blocks/page-arena.ts";
import { EventRingWriter } from "./event-ring.ts";

/** Words of a record in an event ring: these, then the parent's digest if there is one, digests of all blocks, tokens of all blocks. */
export const RECORD_KIND = 0;
export const RECORD_MEDIUM = 1;
export const RECORD_GROUP = 2;
export const RECORD_BLOCK_SIZE = 3;
export const RECORD_BLOCKS = 4;
export const RECORD_TOKENS = 5;
export const RECORD_FLAGS = 6;
export const RECORD_HEADER_WORDS = 7;

export const KIND_STORED = 1;
export const KIND_REMOVED = 2;
export const KIND_CLEARED = 3;

export const CODE_GPU = 1;
export const CODE_POOL = 2;

export const FLAG_PARENT = 1;
/** The blocks' hashes cover tokens alone: their extra keys are known to be none. */
export const FLAG_PLAIN = 2;

/** Where a request's tokens and hashes lie. */
export interface RequestRows {
  readonly tokenPage: number;
  readonly hashPage: number;
}

/** Blocks of one request that stand in a row, of one KV-cache group. */
export interface StoredRun {
  readonly medium: typeof CODE_GPU | typeof CODE_POOL;
  readonly group: number;
  /** Tokens of one block of the group. */
  readonly blockSize: number;
  /** Number of the first block among the request's blocks of this size. */
  readonly firstBlock: number;
  readonly blocks: number;
  readonly plain: boolean;
}

/** Writes KV events of one actor into its ring, out of the shared tables. Never waits; allocates nothing per block. */
export class KvEventWriter {
  readonly #ring: EventRingWriter;
  readonly #hashBlockSize: number;
  readonly #tokens: PageArena;
  readonly #hashes: PageArena;
  readonly #cursor: ChainCursor;

  constructor(
    ring: SharedArrayBuffer,
    tables: { readonly tokens: PageArena; readonly hashes: PageArena },
    hashBlockSize: number,
  ) {
    this.#ring = new EventRingWriter(ring);
    this.#tokens = tables.tokens;
    this.#hashes = tables.hashes;
    this.#hashBlockSize = hashBlockSize;
    this.#cursor = new ChainCursor(tables.tokens);
  }

  /** BlockStored. The rows must hold the run's tokens and hashes. False: no room, the event is lost and counted. */
  stored(rows: RequestRows, run: StoredRun): boolean {
    const { blocks, firstBlock, blockSize } = run;
    const ring = this.#ring;
    const parent = firstBlock > 0;
    const tokens = blocks * blockSize;
    const digests = (blocks + (parent ? 1 : 0)) * HASH_STRIDE_WORDS;
    if (!ring.open(RECORD_HEADER_WORDS + digests + tokens)) return false;
    const flags = (parent ? FLAG_PARENT : 0) | (run.plain ? FLAG_PLAIN : 0);
    this.#header(KIND_STORED, run.medium, run.group, blockSize, blocks, tokens, flags);
    for (let block = firstBlock - (parent ? 1 : 0); block < firstBlock + blocks; block++) {
      // A block is named by the hash of its last hash block, which covers everything before it.
      const hash = ((block + 1) * blockSize) / this.#hashBlockSize - 1;
      const offset = this.#hashes.offset(rows.hashPage, hash);
      ring.putWords(this.#hashes.words, offset, HASH_STRIDE_WORDS);
    }
    const cursor = this.#cursor.seek(rows.tokenPage, firstBlock * blockSize);
    for (let token = 0; token < tokens; token++) ring.put(this.#tokens.words[cursor.advance()]!);
    ring.close();
    return true;
  }

  /** BlockRemoved of the block whose digest lies at `words[offset]`. */
  removed(medium: number, group: number, words: Int32Array, offset: number): boolean {
    if (!this.#ring.open(RECORD_HEADER_WORDS + HASH_STRIDE_WORDS)) return false;
    this.#header(KIND_REMOVED, medium, group, 0, 1, 0, 0);
    this.#ring.putWords(words, offset, HASH_STRIDE_WORDS);
    this.#ring.close();
    return true;
  }

  /** AllBlocksCleared. */
  cleared(): boolean {
    if (!this.#ring.open(RECORD_HEADER_WORDS)) return false;
    this.#header(KIND_CLEARED, 0, 0, 0, 0, 0, 0);
    this.#ring.close();
    return true;
  }

  #header(
    kind: number,
    medium: number,
    group: number,
    blockSize: number,
    blocks: number,
    tokens: number,
    flags: number,
  ): void {
    const ring = this.#ring;
    ring.put(kind);
    ring.put(medium);
    ring.put(group);
    ring.put(blockSize);
    ring.put(blocks);
    ring.put(tokens);
    ring.put(flags);
  }
}
