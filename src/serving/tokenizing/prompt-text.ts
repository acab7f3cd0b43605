import type { ChatMessage, ModelTokenizer } from "../model/tokenizer.ts";

/** A prompt as a client writes it: plain text, or a conversation for the chat template. Structured-cloneable. */
export type PromptText = string | readonly ChatMessage[];

export function encodePrompt(tokenizer: ModelTokenizer, prompt: PromptText): Int32Array {
  return typeof prompt === "string" ? tokenizer.encode(prompt) : tokenizer.encodeChat(prompt);
}

/** Characters (UTF-16 units) of a prompt: what tokenizing costs grows with. */
export function promptLength(prompt: PromptText): number {
  if (typeof prompt === "string") return prompt.length;
  return prompt.reduce((sum, { content }) => sum + content.length, 0);
}
