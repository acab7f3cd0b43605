/**
 * Goal: long prompts are tokenized on a thread with the very ids of the server's own tokenizer; threads that fail, a full queue
 * and a thread that does not answer each do what they promise, and nothing is left running.
 * Method: the real piscina pool over the compiled entry with the byte tokenizer, and entries that fail on purpose.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import type { TokenizerFile } from "../../src/serving/model/gguf-tokenizer.ts";
import type { PreparedModel } from "../../src/serving/model/prepared-model.ts";
import { loadTokenizer } from "../../src/serving/model/tokenizer.ts";
import {
  LONG_PROMPT_CHARACTERS,
  PromptEncoder,
} from "../../src/serving/tokenizing/prompt-encoder.ts";
import { TokenizerPool } from "../../src/serving/tokenizing/tokenizer-pool.ts";
import { LogLines } from "./support/log-lines.ts";
import { tinyModel } from "./support/serving.ts";

const LONG = "The quick brown fox. ".repeat(1 + LONG_PROMPT_CHARACTERS / 20);

async function pool(
  options: Partial<ConstructorParameters<typeof TokenizerPool>[0]> & { model: PreparedModel },
): Promise<{ pool: TokenizerPool; log: LogLines }> {
  const log = new LogLines();
  const made = new TokenizerPool({ log, ...options });
  onTestFinished(() => made.close());
  return { pool: made, log };
}

/** A module that a tokenizing thread runs instead of the real one. */
async function entry(source: string): Promise<URL> {
  const folder = await mkdtemp(join(tmpdir(), "tokenizer-entry-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  await writeFile(join(folder, "entry.mjs"), source);
  return pathToFileURL(join(folder, "entry.mjs"));
}

test("ids from a thread equal those of the server's own tokenizer, for text and for conversations", async () => {
  const model = await tinyModel();
  const tokenizer = await loadTokenizer(model);
  const { pool: threads, log } = await pool({ model });
  const prompts = new PromptEncoder(tokenizer, threads);
  const messages = [{ role: "user", content: LONG }];
  expect(await threads.encode(LONG)).toEqual(tokenizer.encode(LONG));
  expect(await threads.encode(messages)).toEqual(tokenizer.encodeChat(messages));
  expect(await prompts.encode(LONG)).toEqual(tokenizer.encode(LONG));
  expect(await prompts.encode("short")).toEqual(tokenizer.encode("short"));
  expect(log.lines).toEqual([]);
});

test("short texts stay on the server's thread; long ones and conversations do not", async () => {
  const model = await tinyModel();
  const tokenizer = await loadTokenizer(model);
  const url = await entry("export const encode = () => Int32Array.of(1, 2, 3);");
  const { pool: threads } = await pool({ model, entry: url });
  const prompts = new PromptEncoder(tokenizer, threads);
  expect(await prompts.encode("short")).toEqual(tokenizer.encode("short"));
  expect(await prompts.encode("x".repeat(LONG_PROMPT_CHARACTERS))).toEqual(Int32Array.of(1, 2, 3));
  expect(await prompts.encode([{ role: "user", content: "short" }])).toEqual(
    Int32Array.of(1, 2, 3),
  );
});

test("what a chat template refuses, and a template that loops without end, come back as errors of the thread", async () => {
  const folder = await mkdtemp(join(tmpdir(), "template-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const file: TokenizerFile = {
    origin: "model.gguf",
    kind: "byte-level",
    preTokenizer: "gpt-2",
    tokens: ["a"],
    tokenTypes: [1],
    merges: [],
    vocabularySize: 1,
    beginTokenId: null,
    endTokenId: null,
    endTokenIds: [],
    addBeginToken: false,
    addEndToken: false,
    addSpacePrefix: false,
    chatTemplate:
      "{% if messages[0].content == 'b' %}{{ raise_exception('no b') }}{% endif %}{% if messages[0].content == 'c' %}{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}{% endif %}a",
  };
  const path = join(folder, "tokenizer.json");
  await writeFile(path, JSON.stringify(file));
  const model = { ...(await tinyModel()), tokenizer: { kind: "file", path } } as const;
  const { pool: threads, log } = await pool({ model });
  const ask = (content: string) => threads.encode([{ role: "user", content }]);
  expect(await ask("a")).toEqual(Int32Array.of(0));
  await expect(ask("b")).rejects.toMatchObject({ code: "INVALID_VALUE", field: "messages" });
  await expect(ask("b")).rejects.toThrow(
    /^messages: the model's chat template refuses them: no b\. Use the roles/,
  );
  await expect(ask("c")).rejects.toMatchObject({ code: "MODEL_INVALID", field: "chat_template" });
  expect(await ask("a")).toEqual(Int32Array.of(0));
  expect(log.lines).toEqual([]);
});

test("a prompt that the tokenizer refuses is refused by the server's own tokenizer", async () => {
  const model = await tinyModel();
  const url = await entry("export const encode = () => null;");
  const { pool: threads } = await pool({ model, entry: url });
  const refusing = await loadTokenizer(model);
  refusing.encode = () => {
    throw new RangeError("refused");
  };
  await expect(new PromptEncoder(refusing, threads).encode(LONG)).rejects.toThrow("refused");
});

test("threads that cannot load their tokenizer fall back to the server's thread and are given up", async () => {
  const prepared = await tinyModel();
  const model = {
    ...prepared,
    tokenizer: { kind: "file", path: "/nowhere/tokenizer.json" },
  } as const;
  const tokenizer = await loadTokenizer(prepared);
  const { pool: threads, log } = await pool({ model });
  const prompts = new PromptEncoder(tokenizer, threads);
  for (let count = 0; count < 5; count++)
    expect(await prompts.encode(LONG)).toEqual(tokenizer.encode(LONG));
  expect(log.lines.map(({ level }) => level)).toEqual(["warn", "warn", "warn"]);
  expect(log.lines.at(-1)?.text).toContain("from now on");
});

test("a thread that does not answer is ended at the time limit, and the next prompt gets a new one", async () => {
  const model = await tinyModel();
  const url = await entry(
    `export const encode = (text) => { while (text === "hang") continue; return Int32Array.of(text.length); };`,
  );
  const { pool: threads } = await pool({ model, entry: url, timeoutMs: 1500 });
  await threads.warm();
  await expect(threads.encode("hang")).rejects.toMatchObject({ code: "TIMEOUT", value: 1500 });
  expect(await threads.encode("four")).toEqual(Int32Array.of(4));
});

test("a full queue refuses, and close ends what waits", async () => {
  const model = await tinyModel();
  const url = await entry(
    `export const encode = () => new Promise(() => setInterval(() => 0, 1000));`,
  );
  const { pool: threads, log } = await pool({ model, entry: url, queueMax: 2 });
  const waiting = Array.from({ length: 3 }, () => threads.encode("waits"));
  await expect(threads.encode("one more")).rejects.toMatchObject({ code: "CAPACITY" });
  await threads.close();
  expect(await Promise.all(waiting)).toEqual([null, null, null]);
  expect(log.lines).toEqual([]);
});
