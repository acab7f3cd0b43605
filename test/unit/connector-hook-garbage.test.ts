/**
 * Goal: whatever a serving loop without types gives to a hook, it gets our error with field, value and remedy, and the connector goes
 * on: never a TypeError of its insides, never half of a call.
 * Method: every argument of every hook is replaced, at every depth, by wrong values and by keys that nobody reads.
 */
import { expect, test } from "vitest";
import { checkEvents } from "../../src/events/check-events.ts";
import type { KvEvent } from "../../src/events/kv-events.ts";
import { MooncakeKvError, showValue } from "../../src/errors.ts";
import { KvEventSubscriber } from "../../src/events/subscriber.ts";
import { GARBAGE, pathsOf, replaced } from "./garbage.ts";
import { EmbeddedLoop } from "./embedded-loop.ts";

type Call = (loop: EmbeddedLoop, given: readonly unknown[]) => unknown;

const method =
  (side: "scheduler" | "worker", name: string): Call =>
  (loop, given) => {
    const target = loop.connector[side] as unknown as Record<
      string,
      (...all: unknown[]) => unknown
    >;
    return target[name]!(...given);
  };

/** Arguments of a call that is right, for a request "one" that was added. */
const HOOKS: readonly [string, Call, readonly unknown[]][] = [
  [
    "addRequest",
    method("scheduler", "addRequest"),
    [
      "two",
      [1, 2, 3],
      {
        maxTokens: 4,
        cacheSalt: "salt",
        lora: { name: "a", path: "/a" },
        multiModal: [{ identifier: "image", offset: 0, length: 2 }],
        promptEmbeds: {
          bytes: new Uint8Array(6),
          rowBytes: 2,
          promptIsTokenIds: [true, false, true],
        },
        noReuse: false,
      },
    ],
  ],
  ["appendTokens", method("scheduler", "appendTokens"), ["one", [7]]],
  ["getNumNewMatchedTokens", method("scheduler", "getNumNewMatchedTokens"), ["one", 0]],
  ["updateStateAfterAlloc", method("scheduler", "updateStateAfterAlloc"), ["one", [[1, 2]], 0]],
  [
    "buildConnectorMeta",
    method("scheduler", "buildConnectorMeta"),
    [
      {
        scheduled: [
          { id: "one", numComputedTokens: 0, numScheduledTokens: 16, newBlockIds: [[3, 4]] },
        ],
        preempted: ["none"],
        finished: ["none"],
      },
    ],
  ],
  ["requestFinished", method("scheduler", "requestFinished"), ["one", [[1, 2]]]],
  ["outcome", method("scheduler", "outcome"), ["one"]],
  ["startLoadKv", method("worker", "startLoadKv"), [{ loads: [], loadCount: 0 }]],
  ["waitForSave", method("worker", "waitForSave"), [{ saves: [], saveCount: 1e9 }]],
  ["waitForLoads", method("worker", "waitForLoads"), [0]],
  ["updateConnectorOutput", method("scheduler", "updateConnectorOutput"), [{ output: {} }]],
];

function expectOurs(error: unknown, what: string): void {
  expect(error, `${what}: ${(error as Error).stack}`).toBeInstanceOf(MooncakeKvError);
  const { code, field, remedy } = error as MooncakeKvError;
  expect(code, what).not.toBe("BROKEN_INVARIANT");
  expect(field, what).toMatch(/\w/);
  expect(remedy, what).toMatch(/\w{3}/);
}

test.each(HOOKS)("%s", (_name, call, good) => {
  for (const path of pathsOf(good).slice(1)) {
    const loop = new EmbeddedLoop();
    loop.connector.scheduler.addRequest("one", [1, 2, 3], { maxTokens: 40 });
    for (const value of GARBAGE) {
      try {
        call(loop, replaced(good, path, value) as readonly unknown[]);
      } catch (error) {
        expectOurs(error, `${path.join(".")} = ${showValue(value)}`);
      }
      // It heals: the next step is built as if nothing had been.
      const metadata = loop.connector.scheduler.buildConnectorMeta({ scheduled: [] });
      expect(metadata).toMatchObject({ loadCount: 0, saveCount: 0 });
      loop.connector.worker.startLoadKv(metadata);
      loop.connector.worker.waitForSave(metadata);
    }
  }
});

const refused: readonly [string, string, Call, readonly unknown[]][] = [
  ["id", "a number as id", method("scheduler", "outcome"), [5]],
  [
    "options.cacheSlat",
    "a misspelt salt",
    method("scheduler", "addRequest"),
    ["two", [1], { cacheSlat: "x" }],
  ],
  [
    "noReuse",
    'a switch as the text "false"',
    method("scheduler", "addRequest"),
    ["two", [1], { noReuse: "false" }],
  ],
  ["step", "no step", method("scheduler", "buildConnectorMeta"), [null]],
  [
    "step.preemptd",
    "a misspelt list",
    method("scheduler", "buildConnectorMeta"),
    [{ scheduled: [], preemptd: ["one"] }],
  ],
  [
    "step.finished",
    "a text as list",
    method("scheduler", "buildConnectorMeta"),
    [{ scheduled: [], finished: "one" }],
  ],
  [
    "scheduled[1].id",
    "a request twice in a step",
    method("scheduler", "buildConnectorMeta"),
    [
      {
        scheduled: [0, 1].map(() => ({
          id: "one",
          numComputedTokens: 0,
          numScheduledTokens: 1,
          newBlockIds: null,
        })),
      },
    ],
  ],
  [
    "blockIds",
    "a block twice in a row",
    method("scheduler", "updateStateAfterAlloc"),
    ["one", [[5, 5]], 0],
  ],
  ["blockIds", "no rows", method("scheduler", "updateStateAfterAlloc"), ["one", undefined, 0]],
  [
    "metadata",
    "another's metadata",
    method("worker", "startLoadKv"),
    [{ loads: Int32Array.of(3), loadCount: 1 }],
  ],
  [
    "finished.output",
    "a copy of an output",
    method("scheduler", "updateConnectorOutput"),
    [{ output: {} }],
  ],
  [
    "timeoutMs",
    "no number: the wait would never end",
    method("worker", "waitForLoads"),
    [Number.NaN],
  ],
];
test.each(refused)("%s names %s", (field, _what, call, given) => {
  const loop = new EmbeddedLoop();
  loop.connector.scheduler.addRequest("one", [1, 2, 3], { maxTokens: 40 });
  expect(() => call(loop, given)).toThrow(expect.objectContaining({ field }));
});

test("reset options", async () => {
  const { scheduler } = new EmbeddedLoop().connector;
  const reset = (options: unknown): Promise<unknown> => scheduler.resetStore(options as object);
  await expect(reset(null)).rejects.toMatchObject({ field: "options" });
  await expect(reset({ force: "no" })).rejects.toMatchObject({ field: "force" });
  await expect(reset({ forced: true })).rejects.toThrow(/Did you mean "force"/);
});

const STORED: KvEvent = {
  type: "BlockStored",
  blockHashes: [1n, Uint8Array.of(1, 2)],
  parentBlockHash: null,
  tokenIds: [1, 2],
  blockSize: 2,
  loraId: null,
  medium: "GPU",
  loraName: null,
  extraKeys: [["salt", 1], null],
  groupIndex: 0,
};
test("events of the loop's own blocks", () => {
  checkEvents([STORED, { type: "AllBlocksCleared" }]);
  checkEvents([{ type: "BlockRemoved", blockHashes: [3n], medium: null }]);
  for (const path of pathsOf([STORED]))
    for (const value of GARBAGE) {
      try {
        checkEvents(replaced([STORED], path, value) as KvEvent[]);
      } catch (error) {
        expectOurs(error, `${path.join(".")} = ${showValue(value)}`);
      }
    }
  const misspelt = { ...STORED, loraname: "x" };
  expect(() => checkEvents([misspelt])).toThrow(/Did you mean "loraName"/);
  expect(() => checkEvents([{ ...STORED, blockHashes: ["1"] } as unknown as KvEvent])).toThrow(
    expect.objectContaining({ code: "INVALID_TYPE", field: "events[0].blockHashes" }),
  );
});

test("a subscriber's options", async () => {
  const good = {
    endpoint: "tcp://127.0.0.1:5557",
    bind: false,
    topic: "",
    replayTimeoutMs: 5,
    firstSequence: 0,
    highWaterMark: 9,
  };
  const load = (): never => {
    throw new Error("options are looked at first");
  };
  for (const path of pathsOf(good))
    for (const value of GARBAGE) {
      const options = replaced(good, path, value);
      const record = typeof options === "object" && options !== null && !Array.isArray(options);
      const given: unknown = record ? { ...options, load } : options;
      const opened = KvEventSubscriber.open(given as { endpoint: string }).catch((e: unknown) => e);
      expectOurs(await opened, `${path.join(".")} = ${showValue(value)}`);
    }
  await expect(
    KvEventSubscriber.open({ ...good, endpiont: "x" } as unknown as { endpoint: string }),
  ).rejects.toThrow(/Did you mean "endpoint"/);
});
