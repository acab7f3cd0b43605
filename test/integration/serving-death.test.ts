/**
 * Goal: a client does not notice that an actor dies while its answer is generated.
 * Method: the whole server; each actor's thread is ended in the middle of a streamed answer, the model's just before one, and
 * the text is compared with the one that nobody disturbed.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import type OpenAI from "openai";
import {
  ACTOR_LOADER,
  ACTOR_LOOKUP,
  ACTOR_MODEL,
  ACTOR_NAMES,
  ACTOR_SAVER,
  ACTOR_SCHEDULER,
} from "../../src/actors/messages.ts";
import type { Application } from "../../src/serving/application.ts";
import { clientOf, scraped, startTiny } from "./serving-support.ts";

let application: Application;
let client: OpenAI;

beforeAll(async () => {
  application = await startTiny();
  client = clientOf(application);
});
afterAll(async () => {
  expect(await application.stop()).toBe(0);
});

const TOKENS = 160;
const asked = {
  model: "tiny",
  prompt: "Death comes to actors, not to answers. ".repeat(4),
  temperature: 0,
  max_tokens: TOKENS,
  ignore_eos: true,
};

test.each(
  [ACTOR_SCHEDULER, ACTOR_MODEL, ACTOR_LOOKUP, ACTOR_LOADER, ACTOR_SAVER].map(
    (actor) => [ACTOR_NAMES[actor], actor] as const,
  ),
)("the %s dies: the answer goes on, every token once", async (_name, actor) => {
  const undisturbed = await client.completions.create(asked);
  const before = application.runtime.supervisor.epoch(actor);
  // onnxruntime-node aborts the whole process when its thread is ended from outside in the middle of a run.
  const atChunk = actor === ACTOR_MODEL ? 0 : 5;
  if (atChunk === 0) void application.runtime.supervisor.kill(actor);
  const stream = await client.completions.create({
    ...asked,
    stream: true,
    stream_options: { include_usage: true },
  });
  let [text, tokens, chunks] = ["", 0, 0];
  for await (const chunk of stream) {
    text += chunk.choices[0]?.text ?? "";
    tokens = chunk.usage?.completion_tokens ?? tokens;
    if (++chunks === atChunk) void application.runtime.supervisor.kill(actor);
  }
  expect(text).toBe(undisturbed.choices[0]?.text);
  expect(tokens).toBe(TOKENS);
  await expect
    .poll(() => application.runtime.supervisor.epoch(actor), { timeout: 120_000 })
    .toBe(before + 1);
  await expect.poll(() => application.runtime.healthy(), { timeout: 120_000 }).toBe(true);
  await expect.poll(() => application.frontEnd.idle(), { timeout: 120_000 }).toBe(true);
  expect(await scraped(application, "mooncake_kv_request_slots_in_use")).toBe(0);
});
