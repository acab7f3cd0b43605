/**
 * Goal: whatever shape a program gives to `attachConnector`, it gets our error with field and remedy: never a bare TypeError, and
 * never a start on half an option.
 * Method: a good set of options, in which every value at every depth is replaced by wrong ones in turn.
 */
import { describe, expect, test } from "vitest";
import type { AttachOptions } from "../../src/actors/runtime/attach.ts";
import { resolveAttach } from "../../src/actors/runtime/attach-options.ts";
import { MooncakeKvError } from "../../src/errors.ts";

const nothing = (): void => undefined;
const RANK = { rank: 0, size: 1 };
const BLOCK_BYTES = 2 * 2 * 16 * 2 * 8 * 2;
const GOOD: AttachOptions = {
  kvCache: {
    modelName: "org/model",
    dtype: "float16",
    layout: "LBHNC",
    blockSize: 16,
    hashBlockSize: 16,
    hashLookaheadTokens: 0,
    hashAlgorithm: "sha256",
    groups: [{ kind: "full", layers: 2, blockSize: 16 }],
    heads: { kvHeads: 2, headSize: 8 },
    tp: RANK,
    pp: RANK,
    pcp: RANK,
    dcp: RANK,
    dp: RANK,
    blockCount: 4,
    weightsFingerprint: null,
  },
  kvTransferConfig: {
    kv_connector: "MooncakeStoreConnector",
    kv_role: "kv_both",
    kv_load_failure_policy: "recompute",
    engine_id: "one",
    kv_connector_extra_config: { engine: "local", load_async: true, lookup_timeout_ms: 1000 },
  },
  blockPool: { pin: nothing, unpin: nothing },
  kvMemory: {
    kind: "user",
    memory: new Uint8Array(4 * BLOCK_BYTES),
    segments: [[{ offset: 0, strideBytes: BLOCK_BYTES, bytes: BLOCK_BYTES }]],
  },
  requestSlots: 8,
  tokensPerRequestMax: 32,
  environment: { PYTHONHASHSEED: "0" },
  log: { debug: nothing, info: nothing, warn: nothing, error: nothing },
  logLevel: "silent",
};
const WRONG: readonly unknown[] = [
  undefined,
  null,
  0,
  -1,
  1.5,
  Number.NaN,
  1e300,
  "x",
  "",
  true,
  nothing,
  {},
  [null],
  new Map(),
  Symbol("s"),
  7n,
];

type Path = readonly (string | number)[];

/** Every place in the options, down to the single values. */
function pathsOf(value: unknown, at: Path = []): Path[] {
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return [at];
  return [at, ...Object.entries(value).flatMap(([key, inner]) => pathsOf(inner, [...at, key]))];
}

function replaced(value: unknown, [key, ...rest]: Path, by: unknown): unknown {
  if (key === undefined) return by;
  const copy: unknown = Array.isArray(value) ? [...value] : { ...(value as object) };
  const record = copy as Record<string | number, unknown>;
  record[key] = replaced(record[key], rest, by);
  return copy;
}

function outcome(options: unknown): unknown {
  try {
    return resolveAttach(options as AttachOptions);
  } catch (error) {
    return error;
  }
}

test("good options are taken", () => {
  expect(outcome(GOOD)).toMatchObject({ connector: { engine: "local" }, kvCache: GOOD.kvCache });
});

describe("every value of the options, replaced by wrong ones", () => {
  test.each(pathsOf(GOOD).map((path) => [path.join(".") || "all", path] as const))(
    "%s",
    (_name, path) => {
      for (const value of WRONG) {
        const result = outcome(replaced(GOOD, path, value));
        if (!(result instanceof Error)) continue;
        expect(result, `${String(value)}: ${result.stack}`).toBeInstanceOf(MooncakeKvError);
        expect((result as MooncakeKvError).remedy).toMatch(/\w{3}/);
      }
    },
  );
});

test.each<[string, Path, unknown]>([
  ["options", [], undefined],
  ["kvCache", ["kvCache"], undefined],
  ["kvCache", ["kvCache"], "org/model"],
  ["groups[0]", ["kvCache", "groups"], [null]],
  ["tp", ["kvCache", "tp"], 3],
  ["heads.kvHeads", ["kvCache", "heads"], undefined],
  ["blockPool", ["blockPool"], undefined],
  ["blockPool.unpin", ["blockPool"], { pin: nothing }],
  ["kvMemory.kind", ["kvMemory"], new Uint8Array(8)],
  ["kvMemory.memory", ["kvMemory", "memory"], [1, 2]],
  ["kvMemory.segments", ["kvMemory", "segments"], [[null]]],
  ["log.error", ["log", "error"], undefined],
  ["logLevel", ["logLevel"], "loud"],
  ["environment", ["environment"], 7],
  ["requestSlots", ["requestSlots"], "many"],
  ["dtype", ["kvCache", "dtype"], Object.create(null)],
  ["attachConnector.kvCach", ["kvCach"], {}],
  ["(empty name)", ["kvTransferConfig", ""], 1],
  ["kvCache.(empty name)", ["kvCache", ""], 1],
  ["kvCache.blocksize", ["kvCache", "blocksize"], 16],
  ["groups[0].slidingwindow", ["kvCache", "groups", 0, "slidingwindow"], 16],
  ["heads.kvheads", ["kvCache", "heads", "kvheads"], 2],
  ["tp.sise", ["kvCache", "tp", "sise"], 2],
  ["kvMemory.segment", ["kvMemory", "segment"], []],
  ["groups[0].eagle", ["kvCache", "groups", 0, "eagle"], "false"],
  ["useEagle", ["kvCache", "useEagle"], 1],
  ["weightsFingerprint", ["kvCache", "weightsFingerprint"], 7],
])("%s is named", (field, path, value) => {
  expect(outcome(replaced(GOOD, path, value))).toMatchObject({ field });
});

test("an option that nobody reads is refused, with the nearest that somebody does", () => {
  const misspelt = outcome(replaced(GOOD, ["kvCache", "blocksize"], 16));
  expect(misspelt).toMatchObject({ remedy: expect.stringContaining('Did you mean "blockSize"?') });
  expect(outcome({ ...GOOD, callback: undefined })).not.toBeInstanceOf(Error);
});

test("a wrong cache description is named before the engine that is missing", () => {
  const { kvTransferConfig: _, ...rest } = GOOD;
  const config = { kv_connector: "MooncakeStoreConnector", kv_role: "kv_both" };
  const options = { ...rest, kvTransferConfig: config, kvCache: { ...GOOD.kvCache, blockSize: 0 } };
  expect(outcome(options)).toMatchObject({ field: "blockSize" });
});
