/**
 * Goal: members of one pool that differ are told so, and never read each other's bytes as something else.
 * Method: several runtimes of this process over one local pool by its name, with other element types, layouts, weights, hash
 * algorithms and prefixes; each is asked through vLLM's hooks for what the first one has saved.
 */
import { afterEach, expect, test, vi } from "vitest";
import type { AttachOptions } from "../../src/index.ts";
import { EngineCalls } from "../../src/store/engine-calls.ts";
import { EmbeddedLoop, KV_CACHE, tokens } from "./support/embedded.ts";
import { freshPoolName } from "./support/serving.ts";

const KEY = "model@mooncake-kv-identity";
const PROMPT = tokens(64, 1);
const open: EmbeddedLoop[] = [];
let pool = freshPoolName();

afterEach(async () => {
  for (const loop of open.splice(0)) await loop.attached.stop();
  pool = freshPoolName();
});

async function join(
  kvCache: Partial<AttachOptions["kvCache"]> = {},
  extra: Readonly<Record<string, unknown>> = {},
): Promise<EmbeddedLoop> {
  const options = {
    kvCache: { ...KV_CACHE, ...kvCache },
    environment: { PYTHONHASHSEED: "7" },
  };
  const loop = await EmbeddedLoop.attach({ pool_name: pool, ...extra }, options);
  open.push(loop);
  return loop;
}

/** Tokens that the pool has of the prompt, and how the lookup ended. */
function lookUp(loop: EmbeddedLoop, id: string): { found: number; outcome: string } {
  const { scheduler } = loop.attached.connector;
  scheduler.addRequest(id, PROMPT);
  const [found] = loop.match(id);
  const outcome = scheduler.outcome(id);
  scheduler.requestFinished(id);
  loop.stepUntil(() => loop.attached.connector.idle());
  return { found, outcome };
}

function poolKeys({ runtime }: EmbeddedLoop): string[] {
  return runtime.native.engineKeys(runtime.engineId, "", 1000).toSorted();
}
function removeKey({ runtime }: EmbeddedLoop, key: string): void {
  runtime.native.engineRemovePrefix(runtime.engineId, key);
}
function lines(loop: EmbeddedLoop, text: string): string[] {
  return loop.log.lines.map((line) => JSON.stringify(line)).filter((line) => line.includes(text));
}

test("members that agree share; the key is the model's, put once", async () => {
  const first = await join();
  expect(first.attached.membership()).toEqual({
    membership: "open",
    differences: [],
    keyDifferences: [],
  });
  expect(poolKeys(first)).toEqual([KEY]);
  first.computeAndSave("save", PROMPT, () => undefined);
  const second = await join();
  expect(lookUp(second, "same")).toEqual({ found: 48, outcome: "HIT" });
  expect(poolKeys(second).filter((key) => key.includes("identity"))).toEqual([KEY]);
});

test.each([
  ["dtype", { dtype: "bfloat16" }, "bfloat16", "float16"],
  ["layout", { layout: "LBNHC" }, "LNHC", "LHNC"],
  ["weightsFingerprint", { weightsFingerprint: "new" }, "new", "old"],
  ["headSize", { heads: { kvHeads: 2, headSize: 4 } }, "4", "8"],
  ["groups[0].layers", { groups: [{ kind: "full", layers: 3 }] }, "3", "2"],
] as const)(
  "another %s under the same keys closes the pool",
  async (field, other, ours, theirs) => {
    const first = await join({ layout: "LBHNC", weightsFingerprint: "old" });
    first.computeAndSave("save", PROMPT, () => undefined);
    const before = poolKeys(first);

    const second = await join({ layout: "LBHNC", weightsFingerprint: "old", ...other });
    const { membership, differences } = second.attached.membership();
    expect(membership).toBe("closed");
    expect(differences.map((difference) => difference.field)).toEqual([`bytes.${field}`]);
    expect(differences[0]?.ours).toContain(ours);
    expect(differences[0]?.theirs).toContain(theirs);
    expect(lines(second, "cache_prefix")).toHaveLength(1);

    expect(lookUp(second, "same")).toEqual({ found: 0, outcome: "IDENTITY_MISMATCH" });
    // Its own blocks do not get there either, and nothing hangs.
    const { scheduler } = second.attached.connector;
    const prompt = tokens(64, 2);
    scheduler.addRequest("own", prompt);
    expect(second.match("own")).toEqual([0, false]);
    const blocks = second.blocks(4);
    scheduler.updateStateAfterAlloc("own", [blocks], 0);
    second.step([{ id: "own", numComputedTokens: 0, newBlockIds: null, numScheduledTokens: 64 }]);
    scheduler.requestFinished("own", [blocks]);
    second.stepUntil(() => second.attached.connector.idle());
    expect(poolKeys(first)).toEqual(before);
    expect(second.attached.healthy()).toBe(true);

    // Told once, however often it is looked at.
    await second.runtime.membership.check();
    expect(lines(second, "cache_prefix")).toHaveLength(1);
  },
);

test("another cache_prefix keeps the two apart, with a key of its own", async () => {
  await join();
  const second = await join({ dtype: "bfloat16" }, { cache_prefix: "b" });
  expect(second.attached.membership().membership).toBe("open");
  expect(poolKeys(second)).toEqual([`b@${KEY}`, KEY]);
});

test("a pool whose key goes away is open again, and saves what was held back", async () => {
  const first = await join();
  const second = await join({ dtype: "bfloat16" });
  const { scheduler } = second.attached.connector;
  expect(lookUp(second, "closed").outcome).toBe("IDENTITY_MISMATCH");
  scheduler.addRequest("held", PROMPT);
  second.match("held");
  const blocks = second.blocks(4);
  scheduler.updateStateAfterAlloc("held", [blocks], 0);
  second.step([{ id: "held", numComputedTokens: 0, newBlockIds: null, numScheduledTokens: 64 }]);
  expect(poolKeys(second)).toEqual([KEY]);

  removeKey(first, KEY);
  await second.runtime.membership.check();
  expect(second.attached.membership()).toMatchObject({ membership: "open", differences: [] });
  expect(lines(second, "open to this member again")).toHaveLength(1);
  scheduler.appendTokens("held", []);
  // The save waits for its hashes too: the lookup actor makes them, and may not have been at work yet.
  await vi.waitUntil(() => {
    second.step([{ id: "held", numComputedTokens: 64, newBlockIds: null, numScheduledTokens: 0 }]);
    return poolKeys(second).filter((key) => key.includes("tp_rank")).length === 4;
  }, 60_000);
  scheduler.requestFinished("held", [blocks]);
  second.stepUntil(() => second.attached.connector.idle());

  // Now the other one is wrong here, and finds out when it looks.
  await first.runtime.membership.check();
  expect(first.attached.membership().membership).toBe("closed");
  expect(lookUp(first, "late")).toEqual({ found: 0, outcome: "IDENTITY_MISMATCH" });
});

test("6 KB of brackets under the key end nobody: members that run put theirs back, one that starts computes", async () => {
  const first = await join();
  const { native, engineId } = first.runtime;
  const calls = new EngineCalls({ native, engineId });
  const deep = Buffer.from("[".repeat(3000) + "]".repeat(3000));
  for (const text of [
    deep,
    Buffer.from(`{"format":1,"keys":{"a":${deep.toString()}},"bytes":{}}`),
  ]) {
    removeKey(first, KEY);
    expect(await calls.putValue(KEY, text, 5000)).toEqual({ ok: true, value: "stored" });
    const second = await join();
    const { membership, problem } = second.attached.membership();
    expect([membership, typeof problem]).toEqual(["unknown", "string"]);
    expect(lookUp(second, "alone")).toEqual({ found: 0, outcome: "ENGINE_DOWN" });
    await first.runtime.membership.checkAnew();
    expect(first.attached.membership().membership).toBe("open");
    await second.runtime.membership.checkAnew();
    expect(second.attached.membership().membership).toBe("open");
  }
});

test.each([
  ["hashAlgorithm", { hashAlgorithm: "sha256_cbor" }],
  ["blockSizes", { blockSize: 8 }],
] as const)("another %s is warned of with both values; nothing is closed", async (field, other) => {
  await join();
  const second = await join(other);
  const { membership, keyDifferences } = second.attached.membership();
  expect(membership).toBe("open");
  expect(keyDifferences.map((difference) => difference.field)).toContain(`keys.${field}`);
  const told = lines(second, `${field} is`);
  expect(told).toHaveLength(1);
  const difference = keyDifferences.find((one) => one.field === `keys.${field}`);
  expect(told[0]).toContain(difference?.ours.replaceAll('"', ""));
  expect(told[0]).toContain(difference?.theirs.replaceAll('"', ""));
});

test("members that start at the same time go by what the pool took first", async () => {
  const loops = await Promise.all(
    (["float16", "bfloat16", "float16", "bfloat16"] as const).map((dtype) => join({ dtype })),
  );
  const states = loops.map((loop) => loop.attached.membership().membership);
  expect(states.toSorted()).toEqual(["closed", "closed", "open", "open"]);
  expect(states[0]).toBe(states[2]);
  expect(states[1]).toBe(states[3]);
});
