import { isRecord } from "../../config/json-text.ts";
import { showValue } from "../../errors.ts";
import type { ChatMessage } from "../model/tokenizer.ts";
import { badParameter } from "./errors.ts";
import { checkFields, type IgnoredField, type KnownFields } from "./known-fields.ts";

const MESSAGES_MAX = 4096;
const MESSAGES = `must be a list of 1 to ${MESSAGES_MAX} messages such as {"role": "user", "content": "Hello"}`;
const CONTENT = 'must be a text or a list of parts such as {"type": "text", "text": "Hello"}';

const ROLES: ReadonlySet<unknown> = new Set(["system", "developer", "user", "assistant"]);
const ROLE_REMEDY = "Use system, developer, user or assistant.";

const CALLS = ["tool_calls", "function_call"];
const MESSAGE_FIELDS: KnownFields = {
  read: ["role", "content", "name", ...CALLS],
  // Clients send an answer back as they got it, from whatever server.
  ignored: [
    "refusal",
    "annotations",
    "audio",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "tool_call_id",
    "cache_control",
    "metadata",
    "id",
  ],
};
const PART_FIELDS: KnownFields = {
  read: ["type", "text"],
  ignored: ["annotations", "cache_control"],
};

type Json = Readonly<Record<string, unknown>>;

/**
 * The conversation as the model's chat template takes it. Throws 400 at the first message or part that is wrong or has no text
 * form.
 */
export function chatMessages(messages: unknown, ignored: IgnoredField): ChatMessage[] {
  if (messages === undefined) {
    throw badParameter("messages", `is missing; it ${MESSAGES}.`, "missing_parameter");
  }
  if (!Array.isArray(messages) || messages.length === 0 || messages.length > MESSAGES_MAX) {
    throw badParameter("messages", `${MESSAGES}.`);
  }
  return messages.map((message: unknown, index) => {
    const at = `messages[${index}]`;
    if (!isRecord(message)) throw badParameter(at, "must be an object with role and content.");
    const role = roleOf(message["role"], at);
    refuseCalls(message, at);
    checkFields(message, MESSAGE_FIELDS, { at, kind: "messages[]" }, ignored);
    const content = contentTexts(message["content"], at, ignored);
    const name = message["name"] ?? undefined;
    if (name === undefined) return { role, content };
    if (typeof name !== "string") throw badParameter(`${at}.name`, "must be a text.");
    return { role, content, name };
  });
}

function roleOf(given: unknown, at: string): string {
  if (given === undefined) {
    const problem = "is missing; it must be system, developer, user or assistant.";
    throw badParameter(`${at}.role`, problem, "missing_parameter");
  }
  if (typeof given === "string" && ROLES.has(given)) return given;
  throw badParameter(`${at}.role`, `${showValue(given, 80)} is not supported. ${ROLE_REMEDY}`);
}

function refuseCalls(message: Json, at: string): void {
  for (const call of CALLS) {
    const value = message[call];
    if (value === undefined || value === null) continue;
    if (Array.isArray(value) && value.length === 0) continue;
    const problem = "is not supported here. Write the call into the message's content.";
    throw badParameter(`${at}.${call}`, problem, "unsupported_parameter");
  }
}

function contentTexts(content: unknown, at: string, ignored: IgnoredField): ChatMessage["content"] {
  if (typeof content === "string") return content;
  if (content === null || content === undefined) {
    throw badParameter(
      `${at}.content`,
      'is missing. Give a text, "" for none.',
      "missing_parameter",
    );
  }
  if (!Array.isArray(content)) throw badParameter(`${at}.content`, `${CONTENT}.`);
  return content.map((part: unknown, index) => partText(part, `${at}.content[${index}]`, ignored));
}

function partText(part: unknown, at: string, ignored: IgnoredField): string {
  if (!isRecord(part)) throw badParameter(at, 'must be {"type": "text", "text": "..."}.');
  const { type, text } = part;
  if (type !== "text" || typeof text !== "string") {
    const problem = `a part of type ${showValue(type ?? null, 80)} is not supported. Use {"type": "text", "text": "..."}.`;
    throw badParameter(at, problem, "unsupported_parameter");
  }
  checkFields(part, PART_FIELDS, { at, kind: "messages[].content[]" }, ignored);
  return text;
}
