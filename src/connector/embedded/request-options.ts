import type { TableDimensions } from "../../blocks/tables.ts";
import { checkTokens } from "../../blocks/token-ids.ts";
import { fail } from "../../errors.ts";
import { encodeExtraWords } from "../../keys/block-extra.ts";
import type { LoraAdapter, MultiModalItem } from "../../keys/block-extra.ts";
import { flag } from "../../config/kv-checks.ts";
import { checkRecord, checkWhole } from "./arguments.ts";

/** Embeddings that the prompt is given by, in place of tokens or mixed with them. */
export interface PromptEmbeddings {
  /** One row for each prompt position, row-major, in the model's element type. Read once, in `addRequest`. */
  readonly bytes: Uint8Array;
  readonly rowBytes: number;
  /** For mixed prompts, per position: true where the token counts, false where the row does. Default: what `tokens` holds. */
  readonly promptIsTokenIds?: ArrayLike<boolean>;
}

export interface AddRequestOptions {
  /** Most tokens that may be generated. Default 0: the answer's tokens are neither saved nor looked up. */
  readonly maxTokens?: number;
  /** Requests share blocks only with requests of the same salt. The empty text is none, as in vLLM. */
  readonly cacheSalt?: string | null;
  /** The adapter that computes the request; null or absent for none. */
  readonly lora?: LoraAdapter | null;
  /** Images and the like in the prompt, sorted by offset. */
  readonly multiModal?: readonly MultiModalItem[];
  /**
   * Embeddings of the prompt. Positions without a token are token 0 for the hash, as in vLLM: give zeros there, or
   * `promptIsTokenIds`. All rows are digested on the calling thread, about 1 ms a MB.
   */
  readonly promptEmbeds?: PromptEmbeddings | null;
  /** Neither reads nor writes the pool. */
  readonly noReuse?: boolean;
}

export interface CheckedRequest {
  /** As they are hashed: 0 where an embedding stands. */
  readonly tokens: ArrayLike<number>;
  readonly tokensMax: number;
  readonly noReuse: boolean;
  /** Words of the extra keys, or null for none. */
  readonly extras: Int32Array | null;
}

const OPTION_KEYS: readonly string[] = [
  "maxTokens",
  "cacheSalt",
  "lora",
  "multiModal",
  "promptEmbeds",
  "noReuse",
] satisfies (keyof AddRequestOptions)[];
const EXTRAS_REMEDY = "Give it as AddRequestOptions describes, or leave it out.";

/**
 * What `addRequest` puts into the tables. Throws INVALID_TYPE or INVALID_VALUE for anything that would give a block another
 * name than vLLM gives it.
 */
export function checkRequest(
  tokens: ArrayLike<number>,
  options: AddRequestOptions,
  dimensions: TableDimensions,
): CheckedRequest {
  // A salt or an adapter under a misspelt name would share what must not be shared.
  checkRecord(options, "options", OPTION_KEYS);
  const { maxTokens = 0, promptEmbeds = null, noReuse = false } = options;
  flag(noReuse, "noReuse");
  checkTokens(tokens);
  checkWhole("maxTokens", maxTokens, 0, dimensions.tokensPerRequestMax);
  const tokensMax = tokens.length + maxTokens;
  const hashed = promptEmbeds === null ? tokens : embeddedTokens(tokens, promptEmbeds);
  const extras = extrasOf(hashed, tokensMax, options, dimensions);
  return { tokens: hashed, tokensMax, noReuse, extras };
}

function extrasOf(
  tokens: ArrayLike<number>,
  tokensMax: number,
  options: AddRequestOptions,
  dimensions: TableDimensions,
): Int32Array | null {
  const { cacheSalt = null, lora = null, multiModal = [], promptEmbeds = null } = options;
  checkText("cacheSalt", cacheSalt ?? "");
  if (lora !== null) {
    checkObject("lora", lora);
    checkRecord(lora, "lora", ["name", "path"]);
    checkText("lora.name", lora.name);
    checkText("lora.path", lora.path);
  }
  checkItems(multiModal);
  const plain = !cacheSalt && lora === null && multiModal.length === 0 && promptEmbeds === null;
  if (plain) return null;
  const { hashBlockSize: blockSize, hashLookaheadTokens, extraEncoding } = dimensions;
  const request = { tokens, blockSize, cacheSalt, lora, multiModal, promptEmbeds };
  return encodeExtraWords(
    { ...request, lookaheadTokens: hashLookaheadTokens },
    Math.floor(tokensMax / blockSize),
    extraEncoding,
  );
}

function embeddedTokens(tokens: ArrayLike<number>, embeds: PromptEmbeddings): ArrayLike<number> {
  checkObject("promptEmbeds", embeds);
  checkRecord(embeds, "promptEmbeds", ["bytes", "rowBytes", "promptIsTokenIds"]);
  const { bytes, rowBytes, promptIsTokenIds } = embeds;
  if (!(bytes instanceof Uint8Array))
    fail("INVALID_TYPE", "promptEmbeds.bytes", bytes, "must be a Uint8Array", EXTRAS_REMEDY);
  checkWhole("promptEmbeds.rowBytes", rowBytes, 1, 0x7fffffff);
  if (bytes.length !== rowBytes * tokens.length) {
    const problem = `must hold one row of ${rowBytes} bytes for each of the ${tokens.length} prompt positions`;
    fail("INVALID_VALUE", "promptEmbeds.bytes", bytes.length, problem, EXTRAS_REMEDY);
  }
  if (promptIsTokenIds === undefined) return tokens;
  const field = "promptEmbeds.promptIsTokenIds";
  checkObject(field, promptIsTokenIds);
  if (promptIsTokenIds.length !== tokens.length) {
    const problem = `must say of each of the ${tokens.length} prompt positions whether its token counts`;
    fail("INVALID_VALUE", field, promptIsTokenIds.length, problem, EXTRAS_REMEDY);
  }
  return Int32Array.from(tokens, (token, index) => {
    const counts: unknown = promptIsTokenIds[index];
    // A 1 that is taken for false would leave the token out of the hash, and prompts that differ in it would share blocks.
    if (typeof counts !== "boolean")
      fail("INVALID_TYPE", `${field}[${index}]`, counts, "must be true or false", EXTRAS_REMEDY);
    return counts ? token : 0;
  });
}

function checkItems(items: readonly MultiModalItem[]): void {
  if (!Array.isArray(items))
    fail("INVALID_TYPE", "multiModal", items, "must be a list of items", EXTRAS_REMEDY);
  let last = 0;
  for (const [index, item] of items.entries()) {
    const field = `multiModal[${index}]`;
    checkObject(field, item);
    checkText(`${field}.identifier`, item.identifier);
    checkWhole(`${field}.offset`, item.offset, 0, 0x7fffffff);
    checkWhole(`${field}.length`, item.length, 0, 0x7fffffff);
    if (item.offset < last) {
      const remedy = "Sort the items by offset: a block's hash depends on their order.";
      fail(
        "INVALID_VALUE",
        `${field}.offset`,
        item.offset,
        "lies before the item before it",
        remedy,
      );
    }
    last = item.offset;
  }
}

function checkObject(field: string, value: unknown): void {
  if (typeof value === "object" && value !== null) return;
  fail("INVALID_TYPE", field, value, "must be an object", EXTRAS_REMEDY);
}

function checkText(field: string, value: unknown): void {
  if (typeof value === "string") return;
  fail("INVALID_TYPE", field, value, "must be a text", EXTRAS_REMEDY);
}
