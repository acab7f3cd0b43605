/**
 * The extra element of a block's hash: what besides the tokens decides the KV values of a block. vLLM's order is LoRA adapter,
 * multi-modal items that overlap the block, cache salt (first block only), prompt embeddings.
 */
import { createHash } from "node:crypto";
import { hashableBlocks as hashable } from "../blocks/hashing.ts";
import type { BlockEncoding } from "../blocks/hashing.ts";
import { openWriter } from "./hash-algorithm.ts";
import type { ValueWriter } from "./value-writer.ts";

/** An image or another input that stands in for prompt tokens. */
export interface MultiModalItem {
  /** Equal for equal content and different for different content, such as a hash of it: part of the keys. */
  readonly identifier: string;
  /** First token of its placeholder, and how many there are. */
  readonly offset: number;
  readonly length: number;
}

/** A LoRA adapter. Requests share blocks only with requests of the same name and path. */
export interface LoraAdapter {
  readonly name: string;
  readonly path: string;
}

export interface HashRequest {
  /** All token ids so far. A position that is given by an embedding counts as token 0. */
  readonly tokens: ArrayLike<number>;
  /** Tokens that one hash covers (`hashBlockSize`). */
  readonly blockSize: number;
  /** Tokens after the block that its hash covers too (EAGLE-style drafters); 0 for none. */
  readonly lookaheadTokens?: number;
  readonly lora?: LoraAdapter | null;
  /** Sorted by offset. */
  readonly multiModal?: readonly MultiModalItem[];
  readonly cacheSalt?: string | null;
  /** Rows of the prompt's embeddings, row-major, in the model's element type. */
  readonly promptEmbeds?: { readonly bytes: Uint8Array; readonly rowBytes: number } | null;
}

/** Objects that a pickle of (parent, tokens, extra) has memoized before the extra element: the parent and the tokens' tuple. */
const MEMOIZED_BEFORE_EXTRA = 2;

/** Number of blocks that can be hashed now: whole blocks whose look-ahead tokens exist. */
export function hashableBlocks(request: HashRequest): number {
  const { tokens, blockSize, lookaheadTokens = 0 } = request;
  return hashable(tokens.length, blockSize, lookaheadTokens);
}

/**
 * The bytes of the extra element of block `blockIndex`, as a part of the block's message in this encoding; null when
 * there is none. It covers what lies over the block and its look-ahead tokens. The look-ahead tokens themselves are no part of
 * it: whoever hashes appends them, so this needs no token and works for blocks that are yet to be generated.
 *
 * The bytes are the caller's own. Throws INVALID_VALUE for a text that has no UTF-8 form.
 */
export function encodeExtra(
  blockIndex: number,
  request: HashRequest,
  encoding: BlockEncoding,
): Uint8Array | null {
  const writer = openWriter(encoding, 256);
  return writeExtra(writer, blockIndex, request) ? writer.copy() : null;
}

/**
 * The extras of blocks [0, blockCount) as the words that the addon reads: per block one word byteLength (0: null), then the
 * bytes padded with zeros to whole words, little-endian. null when no block has an extra.
 *
 * `blockCount` counts all blocks that the request may ever have (prompt and answer): a LoRA adapter or prompt embeddings are in
 * every one of them.
 */
export function encodeExtraWords(
  request: HashRequest,
  blockCount: number,
  encoding: BlockEncoding,
): Int32Array | null {
  const writer = openWriter(encoding, 256);
  const extras = Array.from({ length: blockCount }, (_, block) =>
    writeExtra(writer, block, request) ? writer.copy() : null,
  );
  if (extras.every((extra) => extra === null)) return null;
  const words = extras.reduce((sum, extra) => sum + 1 + Math.ceil((extra?.length ?? 0) / 4), 0);
  const stream = new Int32Array(words);
  const bytes = new Uint8Array(stream.buffer);
  let word = 0;
  for (const extra of extras) {
    stream[word++] = extra?.length ?? 0;
    if (extra === null) continue;
    bytes.set(extra, word * 4);
    word += Math.ceil(extra.length / 4);
  }
  return stream;
}

/** Writes the extra element; false (and nothing written) when there is none. */
function writeExtra(writer: ValueWriter, blockIndex: number, request: HashRequest): boolean {
  writer.reset(MEMOIZED_BEFORE_EXTRA);
  const start = blockIndex * request.blockSize;
  return writeParts(
    writer,
    request,
    start,
    start + request.blockSize + (request.lookaheadTokens ?? 0),
  );
}

function writeParts(
  writer: ValueWriter,
  request: HashRequest,
  start: number,
  end: number,
): boolean {
  const items = overlapping(request.multiModal ?? [], start, end);
  const lora = request.lora ?? null;
  const salt = start === 0 ? (request.cacheSalt ?? "") : "";
  const embeds = request.promptEmbeds ?? null;
  const count =
    (lora === null ? 0 : 1) + items.length + (salt === "" ? 0 : 1) + (embeds === null ? 0 : 1);
  if (count === 0) return false;
  writer.array(count);
  if (lora !== null) {
    writer.array(3);
    writer.tag("lora");
    writer.text(lora.name);
    writer.text(lora.path);
    writer.endArray(3);
  }
  for (const item of items) {
    writer.array(3);
    writer.tag("mm");
    writer.text(item.identifier);
    writer.integer(item.offset - start);
    writer.endArray(3);
  }
  if (salt !== "") {
    writer.array(2);
    writer.tag("cache_salt");
    writer.text(salt);
    writer.endArray(2);
  }
  if (embeds !== null) {
    const rows = embeds.bytes.subarray(start * embeds.rowBytes, end * embeds.rowBytes);
    writer.array(2);
    writer.tag("prompt_embeds");
    writer.bytes(createHash("sha256").update(rows).digest());
    writer.endArray(2);
  }
  writer.endArray(count);
  return true;
}

/**
 * Items that overlap [start, end). As in vLLM the walk ends at the first item that reaches past `end`, so of items that lie
 * inside one another the later ones are left out.
 */
function overlapping(
  items: readonly MultiModalItem[],
  start: number,
  end: number,
): MultiModalItem[] {
  const found: MultiModalItem[] = [];
  for (const item of items) {
    if (item.offset >= end) break;
    const itemEnd = item.offset + item.length;
    if (itemEnd <= start) continue;
    found.push(item);
    if (itemEnd > end) break;
  }
  return found;
}
