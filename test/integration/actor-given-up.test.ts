/**
 * Goal: an actor that throws whatever it gets is given up. Without lookup, loader or saver every request still ends, with the
 * right answer, and nothing leaks; without scheduler or model every request ends with an error and the server says so.
 * Method: the whole runtime with small restart limits; each successor is told to throw as well. Answers are compared with
 * undisturbed ones. The model, which cannot be told to throw, is ended between two runs.
 */
import { afterEach, expect, test } from "vitest";
import {
  ACTOR_LOADER,
  ACTOR_LOOKUP,
  ACTOR_MODEL,
  ACTOR_NAMES,
  ACTOR_SAVER,
  ACTOR_SCHEDULER,
  FINISH_ERROR,
  OUTCOME_ENGINE_DOWN,
  OUTCOME_NAMES,
} from "../../src/actors/messages.ts";
import type { Application } from "../../src/serving/application.ts";
import { type Answer, generate, promptOf, startGenerating } from "./support/generate.ts";
import { restarts, settled } from "./support/gauges.ts";
import { clearPool, dropLocalCache, poolKeys, warm } from "./support/pool.ts";
import { type Serving, startServing } from "./support/serving.ts";

const DEATHS_MAX = 3;
const REQUESTS = 8;
const BLOCK = 16;
const ROUNDS_MAX = 20;

let serving: Serving;
afterEach(async () => {
  await serving.application.stop();
});

async function start(): Promise<Serving> {
  return startServing(
    {},
    {
      blockCount: 220,
      http: { host: "127.0.0.1", port: 0, debugRoutes: false },
      restartLimits: {
        firstDelayMs: 1,
        delayMsMax: 4,
        quietMs: 600_000,
        deathsMax: DEATHS_MAX,
      },
    },
  );
}

/** From now on the actor throws whenever it takes a message, under every epoch. */
function throwAlways({ runtime }: Application, actor: number): void {
  runtime.supervisor.on("restarted", (restarted) => {
    if (restarted === actor) runtime.supervisor.fail(actor);
  });
  runtime.supervisor.fail(actor);
}

async function health(application: Application): Promise<number> {
  return (await fetch(`${application.server?.url ?? ""}/health`)).status;
}

test.each(
  [ACTOR_LOOKUP, ACTOR_LOADER, ACTOR_SAVER].map((actor) => [ACTOR_NAMES[actor], actor] as const),
)("the %s actor is given up: requests compute", async (_name, actor) => {
  serving = await start();
  const { application, log } = serving;
  const { runtime } = application;
  const prompts = Array.from({ length: REQUESTS }, (_, index) =>
    promptOf(application, 3 * BLOCK + 29 * index, 50 * index),
  );
  const right: Answer[] = [];
  for (const prompt of prompts) right.push(await generate(application, prompt, { noReuse: true }));
  for (const prompt of prompts.slice(0, REQUESTS / 2)) await warm(application, prompt, 3);
  throwAlways(application, actor);
  const round = async (): Promise<Answer[]> => {
    const answers = await Promise.all(prompts.map((prompt) => generate(application, prompt)));
    for (const [index, answer] of answers.entries()) {
      expect(answer.tokens).toEqual(right[index]?.tokens);
      expect(answer.summary.failure).toBe(null);
    }
    return answers;
  };
  // A saver gets something to do only when the pool lacks it, a loader only when the local cache lacks it.
  for (let rounds = 0; !runtime.ends.gone(actor) && rounds < ROUNDS_MAX; rounds++) {
    if (actor === ACTOR_SAVER) clearPool(application);
    await application.frontEnd.dropLocalCache();
    await round();
  }
  await expect.poll(() => runtime.ends.gone(actor), { timeout: 120_000 }).toBe(true);
  expect(restarts(runtime, actor)).toBe(DEATHS_MAX + 1);
  expect(log.count("actor died too often: given up")).toBe(1);
  // Whatever was asked of the dead is answered.
  await settled(application);
  if (actor === ACTOR_SAVER) clearPool(application);
  await dropLocalCache(application);
  // Far more requests than mailboxes hold messages of one kind: nothing is sent to it any more.
  for (let rounds = 0; rounds < 12; rounds++) {
    const outcomes = (await round()).map(({ summary }) => OUTCOME_NAMES[summary.lookupOutcome]);
    const expected = OUTCOME_NAMES[OUTCOME_ENGINE_DOWN];
    if (actor !== ACTOR_SAVER) expect(outcomes).toEqual(prompts.map(() => expected));
    await settled(application);
    await dropLocalCache(application);
  }
  if (actor === ACTOR_SAVER) expect(poolKeys(application)).toEqual([]);
  expect(runtime.ends.mailboxes[actor]?.refusals()).toBe(0);
  expect(log.count("actor died")).toBe(DEATHS_MAX + 1);
  // A scheduler that starts now learns it from the control words.
  await runtime.supervisor.kill(ACTOR_SCHEDULER);
  await round();
  await settled(application);
  await expect.poll(() => health(application), { timeout: 120_000 }).toBe(200);
});

test.each([ACTOR_SCHEDULER, ACTOR_MODEL].map((actor) => [ACTOR_NAMES[actor], actor] as const))(
  "the %s actor is given up: requests end with an error, the server is unhealthy",
  async (_name, actor) => {
    serving = await start();
    const { application } = serving;
    const { supervisor } = application.runtime;
    const prompts = Array.from({ length: 2 * REQUESTS }, (_, index) =>
      promptOf(application, 3 * BLOCK, 50 * index),
    );
    if (actor === ACTOR_MODEL) {
      supervisor.on("restarted", () => void supervisor.kill(actor));
      void supervisor.kill(actor);
    } else throwAlways(application, actor);
    const answers = prompts.map(
      (prompt) => startGenerating(application, prompt, { maxTokens: 400 }).answer,
    );
    const failure = await application.failed;
    expect(failure.code).toBe("CLOSED");
    expect(failure.field).toContain(ACTOR_NAMES[actor]);
    for (const { summary } of await Promise.all(answers)) expect(summary.reason).toBe(FINISH_ERROR);
    expect(await health(application)).toBe(503);
    expect(() => startGenerating(application, prompts[0] ?? Int32Array.of(1))).toThrow("CLOSED");
    const response = await fetch(`${application.server?.url ?? ""}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "tiny", prompt: "x", max_tokens: 1 }),
    });
    expect(response.status).toBe(503);
  },
);
