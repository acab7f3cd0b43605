import { expect } from "vitest";
import {
  ACTOR_LOADER,
  ACTOR_LOOKUP,
  ACTOR_MODEL,
  ACTOR_SAVER,
  ACTOR_SCHEDULER,
} from "../../../src/actors/messages.ts";
import { type Answer, generate, promptOf, startGenerating } from "./generate.ts";
import { restarts, settled } from "./gauges.ts";
import { clearPool, dropLocalCache } from "./pool.ts";
import { type Serving, startServing } from "./serving.ts";

export const MORTALS = [
  ACTOR_SCHEDULER,
  ACTOR_LOOKUP,
  ACTOR_LOADER,
  ACTOR_SAVER,
  ACTOR_MODEL,
] as const;

const BLOCK = 16;
const REQUESTS = 10;
const TOKENS = 12;

/** A runtime that dies again and again under the same concurrent requests, and what they answer undisturbed. */
export interface DeathWorld extends Serving {
  readonly prompts: readonly Int32Array[];
  readonly undisturbed: readonly Answer[];
}

export async function startDeathWorld(traceFile: string | null = null): Promise<DeathWorld> {
  // Little KV memory and short steps: many loads, saves and steps overlap.
  const serving = await startServing(
    {},
    {
      blockCount: 220,
      tokensPerStepMax: 64,
      traceFile,
      http: { host: "127.0.0.1", port: 0, debugRoutes: false },
    },
  );
  const { application } = serving;
  const prompts = Array.from({ length: REQUESTS }, (_, index) =>
    promptOf(application, 3 * BLOCK + 23 * index, index),
  );
  const undisturbed: Answer[] = [];
  for (const prompt of prompts)
    undisturbed.push(await generate(application, prompt, { noReuse: true, maxTokens: TOKENS }));
  return { ...serving, prompts, undisturbed };
}

/**
 * One round: half of the prompts are in the pool and must be loaded, the other half are computed and saved, all at once. When
 * `dieAt` tokens have come, `die` is called. Every answer must be the undisturbed one; then everything is at rest and healthy.
 */
export async function roundWithDeath(
  world: DeathWorld,
  actor: number,
  dieAt: number,
  die: () => void,
): Promise<void> {
  const { application, prompts, undisturbed } = world;
  const { runtime } = application;
  await dropLocalCache(application);
  clearPool(application);
  await Promise.all(
    prompts
      .filter((_, index) => index % 2 === 0)
      .map((prompt) => generate(application, prompt, { maxTokens: 1 })),
  );
  await dropLocalCache(application);
  const [before, epoch] = [restarts(runtime, actor), runtime.supervisor.epoch(actor)];
  let tokens = 0;
  const onToken = (): void => {
    if (tokens++ === dieAt) die();
  };
  const answers = prompts.map(
    (prompt) => startGenerating(application, prompt, { maxTokens: TOKENS }, onToken).answer,
  );
  if (dieAt < 0) die();
  for (const [index, answer] of (await Promise.all(answers)).entries()) {
    expect(answer.tokens).toEqual(undisturbed[index]?.tokens);
    // A dead scheduler may have announced nothing of a token: its hash is unknown then, never a wrong one.
    for (const [at, hash] of answer.hashes.entries())
      if (hash !== "") expect(hash).toBe(undisturbed[index]?.hashes[at]);
    expect(answer.summary.outputTokens).toBe(TOKENS);
    expect(answer.summary.failure).toBe(null);
  }
  // An actor that throws does so when it takes a message: a load and a save bring one to each.
  if (runtime.supervisor.epoch(actor) === epoch) {
    await dropLocalCache(application);
    await Promise.all([
      generate(application, prompts[2] ?? promptOf(application, BLOCK)),
      generate(application, promptOf(application, 5 * BLOCK, 1000 + dieAt)),
    ]);
  }
  await expect
    .poll(() => runtime.supervisor.epoch(actor), { timeout: 120_000, interval: 5 })
    .toBe(epoch + 1);
  await expect.poll(() => runtime.healthy(), { timeout: 120_000, interval: 5 }).toBe(true);
  expect(restarts(runtime, actor)).toBe(before + 1);
  await settled(application);
}
