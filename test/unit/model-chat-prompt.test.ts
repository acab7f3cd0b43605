/**
 * Goal: a conversation becomes the prompt that vLLM makes of it: parts joined or listed, the developer's role, no begin token but
 * the template's; a template's own fault is told as such, without any path.
 * Method: vocabularies of single letters, templates that show what they are given.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { MooncakeKvError } from "../../src/errors.ts";
import { toApiError } from "../../src/serving/http/errors.ts";
import { loadBpeTokenizer } from "../../src/serving/model/bpe-tokenizer.ts";
import { ChatPrompt } from "../../src/serving/model/chat-prompt.ts";
import type { TokenizerFile } from "../../src/serving/model/gguf-tokenizer.ts";
import type { ModelTokenizer } from "../../src/serving/model/tokenizer.ts";

const folder = mkdtempSync(join(tmpdir(), "chat-"));
afterAll(() => rmSync(folder, { recursive: true }));
const prompt = (source: string): ChatPrompt =>
  new ChatPrompt(source, { begin: "<s>", end: null }, "model.gguf", () => 0);
const DUMP = "{{ messages | tojson }}";
const LISTS = "{% for m in messages %}{% for part in m.content %}{% endfor %}{% endfor %}" + DUMP;

test("text parts are joined by line ends, or listed where the template goes through them", () => {
  const messages = [
    { role: "user", content: ["one", "", "two"] },
    { role: "assistant", content: "three", name: "n" },
    { role: "user", content: "" },
  ];
  expect(JSON.parse(prompt(DUMP).render(messages))).toEqual([
    { role: "user", content: "one\ntwo" },
    { role: "assistant", content: "three", name: "n" },
    { role: "user", content: "" },
  ]);
  const part = (text: string): object => ({ type: "text", text });
  expect(JSON.parse(prompt(LISTS).render(messages))).toEqual([
    { role: "user", content: [part("one"), part("two")] },
    { role: "assistant", content: [part("three")], name: "n" },
    { role: "user", content: [] },
  ]);
});

test("a developer speaks as the system, first of all, unless the template knows the role", () => {
  const messages = [
    { role: "system", content: "a" },
    { role: "user", content: "u" },
    { role: "developer", content: ["b", "c"] },
  ];
  expect(JSON.parse(prompt(DUMP).render(messages))).toEqual([
    { role: "system", content: "a\n\nb\nc" },
    { role: "user", content: "u" },
  ]);
  const knowing = `{% if messages[0].role == 'developer' %}{% endif %}${DUMP}`;
  expect(prompt(knowing).render(messages)).toContain('"developer"');
  expect(JSON.parse(prompt(DUMP).render([{ role: "developer", content: "b" }]))).toEqual([
    { role: "system", content: "b" },
  ]);
});

test("the world of a template", () => {
  const source =
    "{{ tools is none }} {{ documents is none }} {{ add_generation_prompt }} {{ bos_token }} {{ eos_token is defined }} {{ strftime_now('%Y') }}";
  expect(prompt(source).render([{ role: "user", content: "x" }])).toBe(
    "True True True <s> False 1970",
  );
});

test("a fault of the template is the server's, by name; a refusal is the client's", () => {
  const thrown = (source: string): unknown => {
    try {
      return prompt(source).render([{ role: "user", content: "x" }]);
    } catch (error) {
      return error;
    }
  };
  const fault = toApiError(thrown("a\n{{ messages[0].content + 1 }}"));
  expect(fault).toMatchObject({ status: 500, code: "chat_template_failed" });
  expect(fault.message).toMatch(/chat template failed: line 2: unsupported operand/);
  expect(fault.message).not.toContain("/tmp");
  expect(fault.message).not.toContain("model.gguf");
  const endless =
    "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}";
  expect(toApiError(thrown(endless))).toMatchObject({ status: 500, code: "chat_template_failed" });
  const refused = toApiError(thrown("{{ raise_exception('no users here') }}"));
  expect(refused).toMatchObject({ status: 400, param: "messages" });
  expect(refused.message).toContain("no users here");
});

async function tokenizerWith(more: Partial<TokenizerFile>): Promise<ModelTokenizer> {
  const tokens = ["<s>", "</s>", "a", "b", "\u0120"];
  const file: TokenizerFile = {
    origin: "model.gguf",
    kind: "byte-level",
    preTokenizer: "gpt-2",
    tokens,
    tokenTypes: [3, 3, 1, 1, 1],
    merges: [],
    vocabularySize: 5,
    beginTokenId: 0,
    endTokenId: 1,
    endTokenIds: [1],
    addBeginToken: true,
    addEndToken: false,
    addSpacePrefix: false,
    chatTemplate: "{% for m in messages %}{{ m.content }}{% endfor %}",
    ...more,
  };
  const path = join(folder, "tokenizer.json");
  writeFileSync(path, JSON.stringify(file));
  return loadBpeTokenizer(path, () => 0);
}

test("the begin token: completions always get it, conversations have what the template writes", async () => {
  const tokenizer = await tokenizerWith({});
  expect([...tokenizer.encode("ab")]).toEqual([0, 2, 3]);
  // As vLLM's tokenizers do.
  expect([...tokenizer.encode("<s>ab")]).toEqual([0, 0, 2, 3]);
  expect([...tokenizer.encode("")]).toEqual([0]);
  expect([...tokenizer.encodeChat([{ role: "user", content: "ab" }])]).toEqual([2, 3]);
  const writing = await tokenizerWith({ chatTemplate: "{{ bos_token }}a" });
  expect([...writing.encodeChat([{ role: "user", content: "ab" }])]).toEqual([0, 2]);
  const without = await tokenizerWith({ addBeginToken: false });
  expect([...without.encode("ab")]).toEqual([2, 3]);
  const ending = await tokenizerWith({ addEndToken: true });
  expect([...ending.encode("ab")]).toEqual([0, 2, 3, 1]);
});

test("a model without template says so, without a path", async () => {
  const tokenizer = await tokenizerWith({ chatTemplate: null });
  const ask = (): Int32Array => tokenizer.encodeChat([{ role: "user", content: "a" }]);
  expect(ask).toThrow(/^model\.gguf: the model has no chat template/);
  expect(ask).toThrow(MooncakeKvError);
});
