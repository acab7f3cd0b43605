/**
 * Goal: the engine that is opened is the one that the configuration names; a rank with several keys a block is refused.
 * Method: the addon's door is a list of what it was asked for; key prefixes of a store cut finer than its ranks.
 */
import { describe, expect, it } from "vitest";
import { readEnvironment } from "../../src/config/environment.ts";
import { parseTransferConfig } from "../../src/config/transfer-config.ts";
import type { EngineOptions } from "../../src/native/binding.ts";
import { planKeySpace, valuesPerBlock } from "../../src/store/key-spaces.ts";
import { openEngine } from "../../src/store/open-engine.ts";

const LOCAL = parseTransferConfig(null, readEnvironment({})).config;

function openedBy(config: Parameters<typeof openEngine>[1]): EngineOptions[] {
  const opened: EngineOptions[] = [];
  openEngine({ engineOpen: (options) => opened.push(options) }, config);
  return opened;
}

describe("openEngine", () => {
  it("opens the local pool with its settings", () => {
    expect(openedBy(LOCAL)).toEqual([{ kind: "local", ...LOCAL.local }]);
  });

  it("never opens a local pool for another engine", () => {
    expect(() => openedBy({ ...LOCAL, engine: "mooncake" })).toThrow(
      /mooncake engine without its store/,
    );
  });
});

describe("planKeySpace", () => {
  const segment = { regionId: 0, offset: 0, strideBytes: 8, bytes: 8 };
  const group = (own: readonly string[]) => ({ putStep: 1, putPhase: 0, own, lookup: ["a", "b"] });
  const plan = (own: readonly string[], values: number) =>
    planKeySpace({
      tensorParallelRank: 0,
      groups: [group(own)],
      segments: [Array.from({ length: values }, () => [segment])],
    });

  it("takes the one prefix of a rank", () => {
    expect(plan(["b"], 1)).toMatchObject({
      prefixes: ["b", "a"],
      ownPrefixesOfGroup: [[0]],
      firstValueOfGroup: [0],
    });
  });

  it("numbers the values of all groups in turn", () => {
    const groups = [group(["b", "c"]), group(["d"])];
    const segments = [[[segment], [segment]], [[segment]]];
    const two = planKeySpace({ tensorParallelRank: 0, groups, segments });
    expect(two).toMatchObject({ ownPrefixesOfGroup: [[0, 1], [2]], firstValueOfGroup: [0, 2] });
    expect(two.segments).toHaveLength(3);
    expect(valuesPerBlock(two)).toBe(2);
  });

  it.each<[readonly string[], number]>([
    [[], 0],
    [["a", "b"], 1],
    [["a"], 2],
  ])("refuses the prefixes %j with %i value(s)", (own, values) => {
    expect(() => plan(own, values)).toThrow(/with a value of its own/);
  });

  it("refuses more values than the addon tells apart", () => {
    const own = Array.from({ length: 17 }, (_, shard) => `shard${shard}`);
    expect(() => plan(own, 17)).toThrow(/more than 16 values/);
  });
});
