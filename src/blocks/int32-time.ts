/**
 * A time that crossed threads as an int32: the low 32 bits of milliseconds. The time within 2^31 ms (24 days) of `nowMs` that
 * has them, in whole milliseconds beside the fraction of `nowMs`.
 */
export function widenTime(lowMs: number, nowMs: number): number {
  return nowMs + ((lowMs - (nowMs | 0)) | 0);
}
