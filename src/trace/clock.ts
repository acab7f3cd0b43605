/**
 * The trace's clock: microseconds since a common origin, the same on every thread of the process.
 *
 * `performance.now()` is cheap but starts anew on each worker thread, and its `timeOrigin` is wall-clock time, which may
 * jump. Both it and `process.hrtime` read the monotonic clock, so each thread measures its own offset once, at its start.
 */

/** Taken once by the host, before it starts any worker, and handed to every thread. Any thread. */
export function traceOriginNanoseconds(): bigint {
  return process.hrtime.bigint();
}

/** A clock for the calling thread only: microseconds (with a fraction) since `originNanoseconds`; about 50 ns a call. */
export function traceClock(originNanoseconds: bigint): () => number {
  const offset =
    Number(process.hrtime.bigint() - originNanoseconds) / 1_000 - performance.now() * 1_000;
  return () => offset + performance.now() * 1_000;
}
