import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import {
  OUTCOME_ENGINE_DOWN,
  OUTCOME_HIT,
  OUTCOME_NAMES,
  OUTCOME_TIMEOUT,
} from "../../../src/actors/messages.ts";
import type { EngineStatus } from "../../../src/native/binding.ts";
import type { ApplicationOptions } from "../../../src/serving/application.ts";
import { COUNTERS } from "../../../src/trace/counters.ts";
import { type Answer, generate, promptOf, startGenerating } from "./generate.ts";
import { counted, settled } from "./gauges.ts";
import { MortalPool } from "./mortal-pool.ts";
import { dropLocalCache } from "./pool.ts";
import { scrapedSum, writeStore } from "./real-pool.ts";
import { seededRandom } from "./seeded-random.ts";
import { type Serving, startServing } from "./serving.ts";

const BLOCK = 16;
const REQUESTS = 10;
const TOKENS = 12;
/** More than busy machines need for anything but a hang. */
const BACK_WITHIN_MS = 60_000;

/** A serving runtime on a real pool that dies again and again in parts, and what the prompts answer without a pool. */
export interface PoolDeathWorld extends Serving {
  readonly pool: MortalPool;
  readonly prompts: readonly Int32Array[];
  readonly undisturbed: readonly Answer[];
  stop(): Promise<void>;
}

const SMALL: Partial<ApplicationOptions> = { blockCount: 220, tokensPerStepMax: 64 };

async function answersWithoutPool(
  seed: number,
): Promise<{ prompts: Int32Array[]; undisturbed: Answer[] }> {
  const { application } = await startServing({}, { ...SMALL, pool: false });
  const random = seededRandom(seed);
  const prompts = Array.from({ length: REQUESTS }, (_, index) =>
    promptOf(application, 3 * BLOCK + random(14 * BLOCK), 1000 * index + random(1000)),
  );
  const undisturbed: Answer[] = [];
  for (const prompt of prompts)
    undisturbed.push(await generate(application, prompt, { noReuse: true, maxTokens: TOKENS }));
  expect(await application.stop()).toBe(0);
  return { prompts, undisturbed };
}

/** `extra`: further settings of the connector. `prepare`: what runs of the pool before the runtime starts. */
export async function startPoolDeathWorld(
  extra: Readonly<Record<string, unknown>> = {},
  { pool = undefined as MortalPool | undefined, seed = 1 } = {},
): Promise<PoolDeathWorld> {
  const answers = await answersWithoutPool(seed);
  const started = pool ?? (await MortalPool.start());
  const folder = mkdtempSync(join(tmpdir(), "pool-deaths-"));
  try {
    const serving = await startServing(
      { engine: "mooncake", lookup_timeout_ms: 5_000, load_timeout_ms: 10_000, ...extra },
      { ...SMALL, http: { host: "127.0.0.1", port: 0, debugRoutes: false } },
      {
        MOONCAKE_CONFIG_PATH: writeStore(folder, started.store),
        MOONCAKE_REQUESTER_LOCAL_HOSTNAME: "127.0.0.1",
      },
    );
    const stop = async (): Promise<void> => {
      const left = await serving.application.stop();
      await started.stop();
      rmSync(folder, { recursive: true });
      expect(left).toBe(0);
    };
    return { ...serving, pool: started, ...answers, stop };
  } catch (error) {
    await started.stop();
    throw error;
  }
}

let salts = 0;
/** Keys that no request had before: nothing need be removed from the pool between two rounds. */
const freshSalt = (): string => `round ${salts++}`;

export function engineStatus({ application: { runtime } }: PoolDeathWorld): EngineStatus {
  return runtime.engine.status();
}

/** Answers that were disturbed, against those that were not. */
function expectRight(world: PoolDeathWorld, answers: readonly Answer[]): void {
  for (const [index, { tokens, hashes, summary }] of answers.entries()) {
    const undisturbed = world.undisturbed[index];
    expect(tokens).toEqual(undisturbed?.tokens);
    // A dead scheduler may have announced nothing of a token: its hash is unknown then, never a wrong one.
    for (const [at, hash] of hashes.entries())
      if (hash !== "") expect(hash).toBe(undisturbed?.hashes[at]);
    expect(summary.outputTokens).toBe(TOKENS);
    expect(summary.failure).toBe(null);
  }
}

/** Lookups and loads that were waited for until their deadline. */
function deadlinesPaid({ application: { runtime } }: PoolDeathWorld): number {
  return (
    counted(runtime, COUNTERS.lookups + OUTCOME_TIMEOUT) +
    counted(runtime, COUNTERS.loads + OUTCOME_TIMEOUT)
  );
}

/**
 * One round: half of the prompts are in the pool and must be loaded, the other half are computed and saved, all at once. When
 * `dieAt` tokens have come (-1: just after the requests were sent), `die` is called. Every answer must be that of a run
 * without a pool.
 */
export async function disturbedRound(
  world: PoolDeathWorld,
  dieAt: number,
  die: () => Promise<unknown> | void,
): Promise<void> {
  const { application, prompts } = world;
  const cacheSalt = freshSalt();
  await Promise.all(
    prompts
      .filter((_, index) => index % 2 === 0)
      .map((prompt) => generate(application, prompt, { maxTokens: 1, cacheSalt })),
  );
  await dropLocalCache(application);
  const paid = deadlinesPaid(world);
  let [tokens, dying] = [0, Promise.resolve() as Promise<unknown> | void];
  const onToken = (): void => {
    if (tokens++ === dieAt) dying = die();
  };
  const request = { maxTokens: TOKENS, cacheSalt };
  const answers = prompts.map(
    (prompt) => startGenerating(application, prompt, request, onToken).answer,
  );
  if (dieAt < 0) dying = die();
  expectRight(world, await Promise.all(answers));
  await dying;
  expect(deadlinesPaid(world) - paid).toBeLessThanOrEqual(prompts.length);
}

/** What a person sees of the engine: `/health` answers 200 without it, because requests are computed. */
export async function expectShown(world: PoolDeathWorld, engine: string): Promise<void> {
  const url = world.application.server?.url ?? "";
  const health = await fetch(`${url}/health`);
  expect(health.status).toBe(200);
  expect(await health.json()).toMatchObject({ status: "ok", engine });
  expect(await scrapedSum(url, "mooncake_kv_engine_open")).toBe(engine === "open" ? 1 : 0);
}

/** While the engine is down nobody waits for it: every lookup says ENGINE_DOWN, none reaches its deadline. */
export async function expectEngineDown(world: PoolDeathWorld): Promise<void> {
  await expect
    .poll(() => engineStatus(world).state, { timeout: BACK_WITHIN_MS, interval: 5 })
    .toBe("down");
  await expectShown(world, "down");
  await expectComputed(world);
}

/** Without an engine that is open. */
export async function expectComputed(world: PoolDeathWorld): Promise<void> {
  const { application, prompts } = world;
  const paid = deadlinesPaid(world);
  const request = { maxTokens: TOKENS, cacheSalt: freshSalt() };
  const answers = await Promise.all(
    prompts.map((prompt) => generate(application, prompt, request)),
  );
  expectRight(world, answers);
  const outcomes = answers.map(({ summary }) => OUTCOME_NAMES[summary.lookupOutcome]);
  expect(new Set(outcomes)).toEqual(new Set([OUTCOME_NAMES[OUTCOME_ENGINE_DOWN]]));
  expect(deadlinesPaid(world)).toBe(paid);
}

export async function untilOpen(world: PoolDeathWorld, reopenings: number): Promise<void> {
  await expect
    .poll(() => ({ ...engineStatus(world), error: null }), { timeout: BACK_WITHIN_MS, interval: 5 })
    .toMatchObject({ state: "open", reopenings });
}

/** A prompt is saved, and loaded again with the same answer; asked again while the pool still knows parts that are dead. */
export async function expectUsed(world: PoolDeathWorld, index = 0): Promise<void> {
  const { application, undisturbed } = world;
  const prompt = world.prompts[index] ?? new Int32Array();
  const deadlineMs = performance.now() + BACK_WITHIN_MS;
  for (;;) {
    const cacheSalt = freshSalt();
    await generate(application, prompt, { maxTokens: 1, cacheSalt });
    await dropLocalCache(application);
    const { tokens, hashes, summary } = await generate(application, prompt, {
      maxTokens: TOKENS,
      cacheSalt,
    });
    expect({ tokens, hashes }).toEqual({
      tokens: undisturbed[index]?.tokens,
      hashes: undisturbed[index]?.hashes,
    });
    const whole = Math.floor((prompt.length - 1) / BLOCK) * BLOCK;
    if (summary.lookupOutcome === OUTCOME_HIT && summary.poolTokens === whole) break;
    if (performance.now() > deadlineMs)
      throw new Error(`the pool is not used again: ${JSON.stringify(summary)}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  await expectAtRest(world);
}

/** No request, pin, quarantined block, batch or call is left. */
export async function expectAtRest(world: PoolDeathWorld): Promise<void> {
  const { application } = world;
  await settled(application);
  await expect
    .poll(() => engineStatus(world), { timeout: BACK_WITHIN_MS, interval: 5 })
    .toMatchObject({ hungCalls: 0, hungOpens: 0, callsInFlight: 0 });
  await expect.poll(() => application.runtime.healthy(), { timeout: BACK_WITHIN_MS }).toBe(true);
}
