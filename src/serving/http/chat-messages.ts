import type { ChatMessage } from "../model/tokenizer.ts";
import { badParameter } from "./errors.ts";
import type { ChatBodyMessage } from "./schemas.ts";

/** OpenAI's `developer` is what templates call `system`. */
const ROLES: ReadonlyMap<string, string> = new Map([
  ["system", "system"],
  ["developer", "system"],
  ["user", "user"],
  ["assistant", "assistant"],
]);

/** The conversation as the model's chat template takes it. Throws 400 for what has no text form. */
export function chatMessages(messages: readonly ChatBodyMessage[]): ChatMessage[] {
  return messages.map((message, index) => {
    const at = `messages[${index}]`;
    const role = ROLES.get(message.role);
    if (role === undefined) {
      const remedy = "Use system, developer, user or assistant.";
      throw badParameter(
        `${at}.role`,
        `'${message.role.slice(0, 80)}' is not supported. ${remedy}`,
      );
    }
    for (const call of ["tool_calls", "function_call"]) {
      if (message[call] === undefined || message[call] === null) continue;
      const remedy = "Write the call into the message's content.";
      throw badParameter(
        `${at}.${call}`,
        `is not supported here. ${remedy}`,
        "unsupported_parameter",
      );
    }
    return { role, content: contentText(message.content, at) };
  });
}

function contentText(content: ChatBodyMessage["content"], at: string): string {
  if (typeof content === "string") return content;
  if (content === null || content === undefined) {
    throw badParameter(
      `${at}.content`,
      'is missing. Give a text, "" for none.',
      "missing_parameter",
    );
  }
  return content
    .map((part, index) => {
      const text = part["text"];
      if (part.type === "text" && typeof text === "string") return text;
      const problem = `a part of type '${part.type.slice(0, 80)}' is not supported. Use {"type": "text", "text": "..."}.`;
      throw badParameter(`${at}.content[${index}]`, problem, "unsupported_parameter");
    })
    .join("");
}
