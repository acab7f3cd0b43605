/**
 * Goal: a reset that the lookup socket asks for is answered in time, whatever the runtime's thread does, and resets go one at a time.
 * Method: the test plays the runtime's thread; timers are run by hand.
 */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ResetRequests } from "../../src/actors/hosts/lookup-rpc/reset-requests.ts";
import type { ResetRequest } from "../../src/actors/supervision/thread-messages.ts";

const SAVE_TIMEOUT_MS = 1000;
let asked: ResetRequest[] = [];
let resets = open();

function open(): ResetRequests {
  asked = [];
  return new ResetRequests({
    post: (request) => void asked.push(request),
    saveTimeoutMs: SAVE_TIMEOUT_MS,
    nowMs: () => Date.now(),
  });
}
function answer(index: number, acknowledged: boolean): void {
  resets.answered({ order: "resetAnswered", id: asked[index]?.id ?? -1, acknowledged });
}
/** Lets promises that are settled go on. */
async function turn(): Promise<void> {
  await vi.advanceTimersByTimeAsync(0);
}

beforeEach(() => {
  vi.useFakeTimers({ now: 0 });
  resets = open();
});
afterEach(() => void vi.useRealTimers());

test.each([true, false])("the runtime's answer %s goes to who asked", async (acknowledged) => {
  const reset = resets.ask();
  await turn();
  expect(asked).toHaveLength(1);
  answer(0, acknowledged);
  expect(await reset).toBe(acknowledged);
  expect(vi.getTimerCount()).toBe(0);
});

test("one at a time, in turn; each has its own answer", async () => {
  const [first, second] = [resets.ask(), resets.ask()];
  await turn();
  expect(asked).toHaveLength(1);
  answer(0, false);
  expect(await first).toBe(false);
  await turn();
  expect(asked).toHaveLength(2);
  answer(1, true);
  expect(await second).toBe(true);
});

test("without an answer it has failed at its deadline; a later answer is nobody's, the next reset goes on", async () => {
  const reset = resets.ask();
  const waits = resets.ask();
  await turn();
  const { deadlineMs } = asked[0] ?? { deadlineMs: 0 };
  // Longer than the runtime's thread may take, and not for ever.
  expect(deadlineMs).toBeGreaterThan(SAVE_TIMEOUT_MS + 5000);
  expect(deadlineMs).toBeLessThan(SAVE_TIMEOUT_MS + 10_000);
  await vi.advanceTimersByTimeAsync(deadlineMs);
  expect(await reset).toBe(false);
  // It was asked as early, so its time is over too: the runtime is not bothered with it.
  expect(await waits).toBe(false);
  expect(asked).toHaveLength(1);
  answer(0, true);
  const next = resets.ask();
  await turn();
  expect(asked).toHaveLength(2);
  answer(0, true);
  answer(1, false);
  expect(await next).toBe(false);
});

test("closed: what waits has failed at once, and so has everything later", async () => {
  const waiting = [resets.ask(), resets.ask()];
  await turn();
  resets.close();
  expect(await Promise.all([...waiting, resets.ask()])).toEqual([false, false, false]);
  expect(asked).toHaveLength(1);
  expect(vi.getTimerCount()).toBe(0);
});
