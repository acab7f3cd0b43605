/**
 * The extra element of a block's hash: what besides the tokens decides the KV values of a block. vLLM's order is LoRA adapter,
 * multi-modal items that overlap the block, cache salt (first block only), prompt embeddings.
 */
import { createHash } from "node:crypto";
import { CborWriter } from "./cbor-writer.ts";

export interface MultiModalItem {
  readonly identifier: string;
  /** First token of its placeholder, and how many there are. */
  readonly offset: number;
  readonly length: number;
}

export interface HashRequest {
  /** All token ids so far. A position that is given by an embedding counts as token 0. */
  readonly tokens: ArrayLike<number>;
  /** Tokens that one hash covers (`hashBlockSize`). */
  readonly blockSize: number;
  /** Tokens after the block that its hash covers too (EAGLE-style drafters); 0 for none. */
  readonly lookaheadTokens?: number;
  readonly lora?: { readonly name: string; readonly path: string } | null;
  /** Sorted by offset. */
  readonly multiModal?: readonly MultiModalItem[];
  readonly cacheSalt?: string | null;
  /** Rows of the prompt's embeddings, row-major, in the model's element type. */
  readonly promptEmbeds?: { readonly bytes: Uint8Array; readonly rowBytes: number } | null;
}

/** Number of blocks that can be hashed now: whole blocks whose look-ahead tokens exist. */
export function hashableBlocks(request: HashRequest): number {
  const usable = request.tokens.length - (request.lookaheadTokens ?? 0);
  return Math.max(0, Math.floor(usable / request.blockSize));
}

/**
 * The CBOR bytes of the extra element of block `blockIndex`, or null when there is none (the hash then covers CBOR null).
 * The bytes are the caller's own. Throws INVALID_VALUE for a text that has no UTF-8 form.
 */
export function encodeExtra(blockIndex: number, request: HashRequest): Uint8Array | null {
  const writer = new CborWriter(256);
  return writeExtra(writer, blockIndex, request) ? writer.copy() : null;
}

/**
 * The extras of blocks [0, blockCount) as the words that the addon reads: per block one word byteLength (0: null), then the
 * bytes padded with zeros to whole words, little-endian. null when no block has an extra.
 */
export function encodeExtraWords(request: HashRequest, blockCount: number): Int32Array | null {
  const extras = Array.from({ length: blockCount }, (_, block) => encodeExtra(block, request));
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
function writeExtra(writer: CborWriter, blockIndex: number, request: HashRequest): boolean {
  const lookahead = request.lookaheadTokens ?? 0;
  const start = blockIndex * request.blockSize;
  const end = start + request.blockSize;
  if (lookahead === 0) return writeParts(writer, request, start, end);
  // With look-ahead the element is (parts or null, t1..tL): always there, its parts covering the look-ahead tokens too.
  writer.array(1 + lookahead);
  if (!writeParts(writer, request, start, end + lookahead)) writer.null();
  for (let position = end; position < end + lookahead; position++) {
    writer.integer(request.tokens[position] ?? Number.NaN);
  }
  return true;
}

function writeParts(writer: CborWriter, request: HashRequest, start: number, end: number): boolean {
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
    writer.text("lora");
    writer.text(lora.name);
    writer.text(lora.path);
  }
  for (const item of items) {
    writer.array(3);
    writer.text("mm");
    writer.text(item.identifier);
    writer.integer(item.offset - start);
  }
  if (salt !== "") {
    writer.array(2);
    writer.text("cache_salt");
    writer.text(salt);
  }
  if (embeds !== null) {
    const rows = embeds.bytes.subarray(start * embeds.rowBytes, end * embeds.rowBytes);
    writer.array(2);
    writer.text("prompt_embeds");
    writer.bytes(createHash("sha256").update(rows).digest());
  }
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
