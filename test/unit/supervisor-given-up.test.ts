/**
 * Goal: an actor that keeps dying is given up, and none comes back unannounced.
 * Method: the policy on a clock of numbers; the supervisor with threads that end by themselves.
 */
import { expect, test } from "vitest";
import { ACTOR_LOADER } from "../../src/actors/messages.ts";
import { RESTART_LIMITS, RestartPolicy } from "../../src/actors/supervision/restart-policy.ts";
import { Supervisor } from "../../src/actors/supervision/supervisor.ts";

const LIMITS = { firstDelayMs: 1, delayMsMax: 3, quietMs: 60_000, deathsMax: 4 };

test("too many deaths in a row are the end, and the default limits can be reached", () => {
  const policy = new RestartPolicy(LIMITS);
  for (let death = 0; death < LIMITS.deathsMax; death++) policy.delayMs(death);
  expect(policy.delayMs(5)).toBe(Infinity);
  const patient = new RestartPolicy();
  let [nowMs, deaths] = [0, 0];
  for (let delay = 0; delay !== Infinity; nowMs += delay, deaths++) delay = patient.delayMs(nowMs);
  expect(deaths).toBe(RESTART_LIMITS.deathsMax + 1);
  expect(nowMs === Infinity).toBe(true);
});

test("a restart that cannot be announced is a death, not an unhandled rejection", async () => {
  const errors: string[] = [];
  const silent = (): void => undefined;
  let [announced, gone] = [0, 0];
  const supervisor = new Supervisor({
    log: {
      debug: silent,
      info: silent,
      warn: silent,
      error: (_fields, text) => void errors.push(text),
    },
    nowMs: () => 0,
    onDeath: silent,
    onRestarted: () => {
      announced++;
      throw new Error("mailbox full");
    },
    onGivenUp: () => void gone++,
    resetPool: async () => false,
    restartLimits: LIMITS,
  });
  const code = `
    import { parentPort } from "node:worker_threads";
    parentPort.on("message", () => undefined);
    parentPort.postMessage({ lifeCycle: "ready" });
  `;
  await supervisor.start({
    actor: ACTOR_LOADER,
    entry: new URL(`data:text/javascript,${encodeURIComponent(code)}`),
    workerData: {},
    startTimeoutMs: 20_000,
  });
  const givenUp = new Promise((resolve) => supervisor.once("givenUp", resolve));
  await supervisor.kill(ACTOR_LOADER);
  expect(await givenUp).toBe(ACTOR_LOADER);
  expect([announced, gone]).toEqual([LIMITS.deathsMax, 1]);
  expect(errors.filter((text) => text === "restart not announced").length).toBe(LIMITS.deathsMax);
  expect(supervisor.running(ACTOR_LOADER)).toBe(false);
});
