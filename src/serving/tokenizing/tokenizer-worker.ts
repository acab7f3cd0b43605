import { move, workerData } from "piscina";
import { MooncakeKvError } from "../../errors.ts";
import type { PreparedModel } from "../model/prepared-model.ts";
import { loadTokenizer } from "../model/tokenizer.ts";
import { encodePrompt, type PromptText, type RefusedPrompt } from "./prompt-text.ts";

/** Entry of a tokenizing thread. It loads the model's tokenizer of its own before it takes the first job. */
const tokenizer = await loadTokenizer(workerData as PreparedModel);

/**
 * Token ids of one prompt, moved to the caller's thread, or what the tokenizer refuses it for: a chat template that forbids these
 * roles, or one that fails. The template is not rendered again elsewhere.
 */
export function encode(prompt: PromptText): Int32Array | RefusedPrompt {
  try {
    return move(encodePrompt(tokenizer, prompt)) as Int32Array;
  } catch (error) {
    if (!(error instanceof MooncakeKvError)) throw error;
    const { code, field, message, remedy } = error;
    const problem = message.slice(field.length + 2, -remedy.length - 2);
    return { code, field, problem, remedy };
  }
}
