/** Whole kibibytes and microseconds of a report, within an int32. */
export function reportKibibytes(bytes: number): number {
  return Math.min(0x7fffffff, Math.round(bytes / 1024));
}
export function reportMicroseconds(fromMs: number, toMs: number): number {
  return Math.min(0x7fffffff, Math.max(0, Math.round((toMs - fromMs) * 1000)));
}
