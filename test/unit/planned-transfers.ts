/** Requests of hybrid models for tests of planned saves and loads: rows of every group, hashes, and what ought to be in the pool. */
import { hitRules } from "../../src/keys/coordinator/hit-rules.ts";
import type { HitRules } from "../../src/keys/coordinator/hit-rules.ts";
import { keyText } from "../../src/store/model-engine.ts";
import type { TraceWriter } from "../../src/trace/events.ts";
import { ActorWorld, range, type WorldOptions } from "./store-world.ts";

/** Full attention, a window of three blocks, and a state every second block; a chunk is 8 tokens long. */
export const HYBRID = hitRules({
  groups: [
    { kind: "full", spanTokens: 4 },
    { kind: "swa", spanTokens: 4, slidingWindow: 10 },
    { kind: "mamba", spanTokens: 8 },
  ],
  hashBlockSize: 4,
});

/** One group of attention, planned because a block is several values. */
export const SHARDED: HitRules = {
  ...hitRules({ groups: [{ kind: "full", spanTokens: 4 }], hashBlockSize: 4 }),
  uniform: false,
};

export function plannedWorld(rules: HitRules, options: WorldOptions = {}): ActorWorld {
  const world = new ActorWorld({
    ...options,
    rules,
    dimensions: {
      blockSize: rules.blockTokens,
      hashBlockSize: rules.hashBlockSize,
      groups: rules.groups.length,
      groupSpanTokens: rules.groups.map(({ spanTokens }) => spanTokens),
      ...options.dimensions,
    },
  });
  rules.groups.forEach((_, group) =>
    range(0, world.tables.dimensions.blockCount).forEach((block) =>
      world.block(group, block).fill(block + 50 * group),
    ),
  );
  return world;
}

/** Rows of a request of `tokens` tokens whose blocks are numbered from `first` on; groups of states have none in saves. */
export function rowsOf(rules: HitRules, tokens: number, first: number, states = false): number[][] {
  return rules.groups.map(({ needs, spanTokens }) =>
    needs === "state" && !states ? [] : range(first, first + Math.ceil(tokens / spanTokens)),
  );
}

/** Keys of a block's values. */
export function valueKeys(
  world: ActorWorld,
  group: number,
  hashPage: number,
  hash: number,
  rank = 0,
): string[] {
  const own = world.workers[rank]?.ownPrefixesOfGroup[group] ?? [];
  const space = world.keySpaces[rank];
  if (space === undefined) throw new Error(`there is no rank ${rank}`);
  return own.map((prefix) => keyText(space, prefix, world.tables.hashes.row(hashPage, hash)) ?? "");
}

/** Names of the events that an actor traces, in order. */
export function eventList(): { readonly names: string[]; readonly trace: TraceWriter } {
  const names: string[] = [];
  return { names, trace: { record: (name) => void names.push(name) } };
}
