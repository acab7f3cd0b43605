/**
 * Goal: a member whose keys hold values of another size, as a vLLM of another element size leaves them, which publishes no identity,
 * stops using the pool after three requests, puts nothing there meanwhile, says why, and comes back when the values are gone.
 * Method: attached connectors on one local pool; the first one's identity is removed, and its values stay.
 */
import { afterEach, expect, test } from "vitest";
import { identityKey } from "../../src/connector/identity/identity.ts";
import { BLOCK, EmbeddedLoop, KV_CACHE, tokens } from "./support/embedded.ts";
import { loadInto } from "./support/real-pool-loop.ts";
import { freshPoolName } from "./support/serving.ts";

const loops: EmbeddedLoop[] = [];
afterEach(async () => {
  for (const loop of loops.splice(0)) expect(await loop.attached.stop()).toBe(0);
});

async function join(pool: string, dtype: "float32" | "float16"): Promise<EmbeddedLoop> {
  const kvCache = { ...KV_CACHE, dtype };
  const loop = await EmbeddedLoop.attach({ pool_name: pool }, { kvCache });
  loops.push(loop);
  return loop;
}
function keys({ runtime }: EmbeddedLoop): string[] {
  return runtime.native.engineKeys(runtime.engineId, "", 1000).toSorted();
}
function end(loop: EmbeddedLoop, id: string): void {
  loop.attached.connector.scheduler.requestFinished(id);
  loop.stepUntil(() => loop.attached.connector.idle());
}

test("closed with reason and remedy after three requests, and open again when a forced reset has removed the values", async () => {
  const pool = freshPoolName();
  const theirs = await join(pool, "float32");
  const prompts = [1, 2, 3].map((seed) => tokens(3 * BLOCK + 1, seed));
  for (const [index, prompt] of prompts.entries())
    theirs.computeAndSave(`theirs-${index}`, prompt, () => undefined);
  theirs.runtime.native.engineRemovePrefix(
    theirs.runtime.engineId,
    identityKey(KV_CACHE.modelName, ""),
  );

  const ours = await join(pool, "float16");
  const { scheduler } = ours.attached.connector;
  for (const [index, prompt] of prompts.entries()) {
    const blocks = ours.blocks(4);
    expect(loadInto(ours, `ours-${index}`, prompt, blocks)).toEqual({ found: 48, kept: 0 });
    expect(scheduler.outcome(`ours-${index}`)).toBe("IDENTITY_MISMATCH");
    end(ours, `ours-${index}`);
  }
  const bytes = 2 * 2 * BLOCK * 16 * 2;
  expect(ours.attached.membership()).toMatchObject({
    membership: "closed",
    differences: [{ field: "bytes.valueBytes", ours: `${bytes}`, theirs: `${2 * bytes}` }],
  });

  const before = keys(ours);
  scheduler.addRequest("closed", prompts[0] ?? []);
  expect(ours.match("closed")[0]).toBe(0);
  expect(scheduler.outcome("closed")).toBe("IDENTITY_MISMATCH");
  end(ours, "closed");
  const fresh = tokens(3 * BLOCK + 1, 9);
  scheduler.addRequest("fresh", fresh);
  ours.match("fresh");
  const blocks = ours.blocks(4);
  scheduler.updateStateAfterAlloc("fresh", [blocks], 0);
  const whole = { numComputedTokens: 0, numScheduledTokens: fresh.length, newBlockIds: null };
  ours.step([{ id: "fresh", ...whole }]);
  expect(keys(ours)).toEqual(before);
  end(ours, "fresh");

  // A look while the values are there changes nothing.
  await ours.runtime.membership.check();
  expect(ours.attached.membership().membership).toBe("closed");
  expect(await scheduler.resetStore()).toMatchObject({ acknowledged: false });
  expect(await scheduler.resetStore({ force: true })).toMatchObject({ acknowledged: true });
  expect(ours.attached.membership()).toMatchObject({ membership: "open", differences: [] });
  ours.computeAndSave("again", tokens(2 * BLOCK + 1, 5), () => undefined);
  expect(loadInto(ours, "loaded", tokens(2 * BLOCK + 1, 5), ours.blocks(3)).kept).toBe(2 * BLOCK);
  end(ours, "loaded");
});
