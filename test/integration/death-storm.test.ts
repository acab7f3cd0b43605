/**
 * Goal: deaths that come together, twice in a row, amid aborts and preemptions, in every mode of lookup and load, still cost
 * nobody an answer.
 * Method: seeded rounds on the whole runtime with hardly more KV memory than one request of full length; random actors die at
 * random tokens; answers that were not aborted are compared with undisturbed ones, and all gauges must come back to zero.
 */
import { expect, test } from "vitest";
import { FINISH_ABORTED, FINISH_LENGTH } from "../../src/actors/messages.ts";
import { MORTALS } from "./support/deaths.ts";
import {
  type Answer,
  type Generating,
  generate,
  promptOf,
  startGenerating,
} from "./support/generate.ts";
import { gaugesAboveZero, settled } from "./support/gauges.ts";
import { startServing } from "./support/serving.ts";
import { unstuck } from "./support/stuck.ts";
import { seededRandom } from "./support/seeded-random.ts";

const ROUNDS = 6;
const REQUESTS = 20;
const DEATHS = 3;
const TOKENS = 24;

test.each([
  { lookup_async: true, load_async: true },
  { lookup_async: false, load_async: true },
  { lookup_async: true, load_async: false },
  { lookup_async: false, load_async: false },
])(
  "storm with %o",
  async (modes) => {
    const { application } = await startServing(
      { ...modes, lookup_timeout_ms: 2000 },
      { blockCount: 72, tokensPerStepMax: 64, sequencesMax: 8 },
    );
    const { runtime } = application;
    const prompts = Array.from({ length: 8 }, (_, index) =>
      promptOf(application, 60 + 31 * index, index % 3),
    );
    const undisturbed: Answer[] = [];
    for (const prompt of prompts)
      undisturbed.push(await generate(application, prompt, { noReuse: true, maxTokens: TOKENS }));
    const random = seededRandom(Number(modes.lookup_async) * 2 + Number(modes.load_async) + 1);
    for (let round = 0; round < ROUNDS; round++) {
      await application.frontEnd.dropLocalCache();
      const deaths = Array.from({ length: DEATHS }, () => ({
        at: random(REQUESTS * 12),
        actor: MORTALS[random(MORTALS.length)] ?? 0,
      }));
      let came = 0;
      const kills: Promise<void>[] = [];
      const running: { prompt: number; abort: boolean; generating: Generating }[] = [];
      const onToken = (): void => {
        came++;
        for (const { at, actor } of deaths)
          if (at === came) kills.push(runtime.supervisor.kill(actor));
        const victim = running[random(REQUESTS * 8)];
        if (victim?.abort === true) victim.generating.abort();
      };
      for (let request = 0; request < REQUESTS; request++) {
        const prompt = random(prompts.length);
        running.push({
          prompt,
          abort: random(4) === 0,
          generating: startGenerating(
            application,
            prompts[prompt] ?? new Int32Array(),
            { maxTokens: TOKENS },
            onToken,
          ),
        });
      }
      for (const { prompt, abort, generating } of running) {
        const answer = await unstuck(application, `answer, round ${round}`, generating.answer);
        const { reason } = answer.summary;
        if (!abort) expect(reason).toBe(FINISH_LENGTH);
        else expect([FINISH_LENGTH, FINISH_ABORTED]).toContain(reason);
        const wanted = undisturbed[prompt]?.tokens ?? [];
        expect(answer.tokens).toEqual(wanted.slice(0, answer.tokens.length));
        // After an abort no more tokens are handed over, also when the scheduler had them all.
        if (!abort) expect(answer.tokens).toHaveLength(TOKENS);
      }
      await unstuck(application, `ends of threads, round ${round}`, Promise.all(kills));
      await expect.poll(() => runtime.healthy(), { timeout: 120_000, interval: 5 }).toBe(true);
      await settled(application);
    }
    expect(gaugesAboveZero(runtime)).toEqual({});
    expect(await unstuck(application, "stop", application.stop())).toBe(0);
  },
  300_000,
);
