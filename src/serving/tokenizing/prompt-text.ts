import type { ErrorCode } from "../../errors.ts";
import type { ChatMessage, ModelTokenizer } from "../model/tokenizer.ts";

/** A prompt as a client writes it: plain text, or a conversation for the chat template. Structured-cloneable. */
export type PromptText = string | readonly ChatMessage[];

/** A refusal on its way between threads. */
export interface RefusedPrompt {
  readonly code: ErrorCode;
  readonly field: string;
  readonly problem: string;
  readonly remedy: string;
}

export function encodePrompt(tokenizer: ModelTokenizer, prompt: PromptText): Int32Array {
  return typeof prompt === "string" ? tokenizer.encode(prompt) : tokenizer.encodeChat(prompt);
}

/** Characters (UTF-16 units) of a prompt: what tokenizing costs grows with. */
export function promptLength(prompt: PromptText): number {
  if (typeof prompt === "string") return prompt.length;
  return prompt.reduce((sum, { content }) => sum + contentLength(content), 0);
}

function contentLength(content: ChatMessage["content"]): number {
  if (typeof content === "string") return content.length;
  return content.reduce((sum, text) => sum + text.length, 0);
}
