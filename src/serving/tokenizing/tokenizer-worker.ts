import { move, workerData } from "piscina";
import { MooncakeKvError } from "../../errors.ts";
import type { PreparedModel } from "../model/prepared-model.ts";
import { loadTokenizer } from "../model/tokenizer.ts";
import { encodePrompt, type PromptText } from "./prompt-text.ts";

/** Entry of a tokenizing thread. It loads the model's tokenizer of its own before it takes the first job. */
const tokenizer = await loadTokenizer(workerData as PreparedModel);

/**
 * Token ids of one prompt, moved to the caller's thread; null when the tokenizer refuses the prompt (a chat template that
 * forbids these roles): the caller's own tokenizer then throws the error itself, class and fields intact.
 */
export function encode(prompt: PromptText): Int32Array | null {
  try {
    return move(encodePrompt(tokenizer, prompt)) as Int32Array;
  } catch (error) {
    if (error instanceof MooncakeKvError) return null;
    throw error;
  }
}
