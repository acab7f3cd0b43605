/** Wrong values, and what puts one in the place of any part of a right one. */

import { changed } from "../attack/mutate.ts";

export const nothing = (): void => undefined;

export const GARBAGE: readonly unknown[] = [
  undefined,
  null,
  0,
  -1,
  1.5,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  1e300,
  2 ** 31,
  "x",
  "",
  true,
  nothing,
  {},
  [],
  [null],
  [[null]],
  { length: -1 },
  new Map(),
  new Date(0),
  Symbol("s"),
  7n,
  Object.create(null),
];

export type Path = readonly (string | number)[];

/** Every place in `value`, down to the single values. */
export function pathsOf(value: unknown, at: Path = []): Path[] {
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return [at];
  return [at, ...Object.entries(value).flatMap(([key, inner]) => pathsOf(inner, [...at, key]))];
}

/** A copy of `value` with `by` at the place. */
export function replaced(value: unknown, path: Path, by: unknown): unknown {
  return changed(value, path, () => by);
}
