import type { Log } from "../../actors/step.ts";
import type { PreparedModel } from "../model/prepared-model.ts";
import type { ModelTokenizer } from "../model/tokenizer.ts";
import { encodePrompt, promptLength, type PromptText } from "./prompt-text.ts";
import { TokenizerPool } from "./tokenizer-pool.ts";

/**
 * Prompts from this many characters on are tokenized off the event loop. Measured with SmolLM2's tokenizer on two busy cores:
 * 1,000 characters take 0.2 ms in place and 1.3 ms by way of a thread; 4,000 take 0.6 and 1.1 ms; 100,000 take 12 and 13 ms.
 * Below, the round trip costs more than the pause it saves.
 */
export const LONG_PROMPT_CHARACTERS = 4096;

/** Text to token ids for requests: short texts in place, long ones and all conversations (a template may take long) on a thread. */
export class PromptEncoder {
  readonly #tokenizer: ModelTokenizer;
  readonly #pool: TokenizerPool | null;

  /** Without a pool everything is tokenized in place. */
  constructor(tokenizer: ModelTokenizer, pool: TokenizerPool | null = null) {
    this.#tokenizer = tokenizer;
    this.#pool = pool;
  }

  static start(model: PreparedModel, tokenizer: ModelTokenizer, log: Log): PromptEncoder {
    // Bytes to ids is one pass of a TextEncoder: no prompt is worth a thread.
    if (model.tokenizer.kind === "bytes") return new PromptEncoder(tokenizer);
    const pool = new TokenizerPool({ model, log });
    pool.warm().catch((error: unknown) => {
      log.warn({ error: String(error) }, "tokenizing thread did not start in time");
    });
    return new PromptEncoder(tokenizer, pool);
  }

  /** Throws what the tokenizer refuses, and what TokenizerPool.encode throws. */
  async encode(prompt: PromptText): Promise<Int32Array> {
    const elsewhere = typeof prompt !== "string" || promptLength(prompt) >= LONG_PROMPT_CHARACTERS;
    const tokens = elsewhere && this.#pool !== null ? await this.#pool.encode(prompt) : null;
    return tokens ?? encodePrompt(this.#tokenizer, prompt);
  }

  async close(): Promise<void> {
    await this.#pool?.close();
  }
}
