/** Makes wrong inputs out of right ones. */
import { Buffer } from "node:buffer";
import type { SeededRandom } from "./random.ts";

const nested = (open: string, close: string, depth: number): string =>
  open.repeat(depth) + close.repeat(depth);

/** Values that programs without types, and other people's files, hold. */
export const WRONG_VALUES: readonly unknown[] = [
  undefined,
  null,
  0,
  -1,
  1.5,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  1e300,
  2 ** 31,
  2 ** 53,
  "",
  "x",
  "\ud800",
  "\u0000",
  "../../etc",
  "x".repeat(100_000),
  true,
  [],
  {},
  [null],
  [[[[[[[[]]]]]]]],
  { __proto__: null },
  JSON.parse('{"__proto__":{"a":1}}') as unknown,
  JSON.parse(nested("[", "]", 2_000)) as unknown,
  JSON.parse(nested('{"a":', "}", 1_000).replace(":}", ":1}")) as unknown,
];
/** The same and what JSON cannot carry: for arguments of functions. */
export const WRONG_ARGUMENTS: readonly unknown[] = [
  ...WRONG_VALUES,
  Symbol("s"),
  7n,
  (): void => undefined,
  new Map([[1, 2]]),
  new Date(0),
  Object.create(null),
  { length: -1 },
  { length: 2 ** 40 },
  Int32Array.of(-1, 2),
  new Proxy({}, { get: () => undefined }),
];

const BYTES = [0, 1, 0x7f, 0x80, 0xff, 0x5b, 0x7b, 0x22];
const WORDS = [0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffff0];

/** Bytes with one to eight changes: bits, whole words, cuts, doubled and moved parts. */
export function mutateBytes(original: Uint8Array, random: SeededRandom): Buffer {
  let bytes = Buffer.from(original);
  for (let left = 1 + random.below(8); left > 0; left--) {
    const at = random.below(Math.max(1, bytes.length));
    switch (random.below(7)) {
      case 0:
        if (bytes.length > 0) bytes[at] = bytes[at]! ^ (1 << random.below(8));
        break;
      case 1:
        if (bytes.length > 0) bytes[at] = random.pick(BYTES);
        break;
      case 2:
        if (bytes.length >= 4)
          bytes.writeUInt32LE(random.pick(WORDS), Math.min(at, bytes.length - 4));
        break;
      case 3:
        if (bytes.length >= 8) {
          const place = Math.min(at, bytes.length - 8);
          bytes.writeBigUInt64LE(BigInt(random.pick(WORDS)) << BigInt(random.below(33)), place);
        }
        break;
      case 4:
        bytes = bytes.subarray(0, at);
        break;
      case 5:
        bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(Math.max(0, at - 64))]);
        break;
      default:
        bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1 + random.below(16))]);
    }
  }
  return bytes;
}

const DEPTH_MAX = 8;
type Path = readonly (string | number)[];

function pathsOf(value: unknown, at: Path = []): Path[] {
  // What was put in before may be deep, or a circle.
  const leaf = typeof value !== "object" || value === null || ArrayBuffer.isView(value);
  if (leaf || at.length >= DEPTH_MAX) return [at];
  return [at, ...Object.entries(value).flatMap(([key, inner]) => pathsOf(inner, [...at, key]))];
}

/** A copy of `value` with what `change` makes of its part at `path`. */
export function changed(value: unknown, path: Path, change: (at: unknown) => unknown): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return change(value);
  const copy: unknown = Array.isArray(value) ? [...value] : { ...(value as object) };
  const record = copy as Record<string | number, unknown>;
  record[key] = changed(record[key], rest, change);
  return copy;
}

/** A copy of `original` with one to three of its parts replaced, removed, renamed or doubled. */
export function mutateValue(
  original: unknown,
  random: SeededRandom,
  wrong: readonly unknown[] = WRONG_VALUES,
): unknown {
  let value = original;
  for (let left = 1 + random.below(3); left > 0; left--) {
    const path = random.pick(pathsOf(value));
    value = changed(value, path, (at) => {
      const record = typeof at === "object" && at !== null && !Array.isArray(at);
      if (!record || random.below(2) === 0) {
        if (Array.isArray(at) && random.below(3) === 0)
          return [...(at as unknown[]), ...(at as unknown[])];
        return random.pick(wrong);
      }
      const keys = Object.keys(at);
      if (keys.length === 0) return { unknown: random.pick(wrong) };
      const key = random.pick(keys);
      const { [key]: taken, ...others } = at as Record<string, unknown>;
      return random.below(2) === 0 ? others : { ...others, [`${key}s`]: taken };
    });
  }
  return value;
}
