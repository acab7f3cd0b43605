import type { Application } from "../../../src/serving/application.ts";

/** Far above what a slow machine needs: whatever takes longer hangs. */
const STUCK_MS = 60_000;

/** Waits for `promise`. What hangs fails with `what` and all that the actors have in hand: such a state comes once in a thousand runs. */
export async function unstuck<T>(
  application: Application,
  what: string,
  promise: Promise<T>,
): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const stuck = new Promise<"stuck">((resolve) => {
    timer = setTimeout(() => resolve("stuck"), STUCK_MS);
  });
  const first = await Promise.race([promise.then((value) => ({ value })), stuck]);
  clearTimeout(timer);
  if (first !== "stuck") return first.value;
  const state = JSON.stringify(await application.dumpState(), null, 1);
  throw new Error(`${what} took more than ${STUCK_MS} ms:\n${state}`);
}
