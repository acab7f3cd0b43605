/**
 * Goal: the engine that is opened is the one that the configuration names; a rank with several keys a block is refused.
 * Method: the addon's door is a list of what it was asked for; key prefixes of a store cut finer than its ranks.
 */
import { describe, expect, it } from "vitest";
import { readEnvironment } from "../../src/config/environment.ts";
import { parseTransferConfig } from "../../src/config/transfer-config.ts";
import type { EngineOptions } from "../../src/native/binding.ts";
import { planKeySpace } from "../../src/store/key-spaces.ts";
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
    expect(() => openedBy({ ...LOCAL, engine: "mooncake" })).toThrow(/local engine only/);
  });
});

describe("planKeySpace", () => {
  const plan = (own: readonly string[]) =>
    planKeySpace({
      tensorParallelRank: 0,
      groups: [{ putStep: 1, putPhase: 0, own, lookup: ["a", "b"] }],
      segments: [[]],
    });

  it("takes the one prefix of a rank", () => {
    expect(plan(["b"])).toMatchObject({ prefixes: ["b", "a"], ownPrefixOfGroup: [0] });
  });

  it.each([[[]], [["a", "b"]]])("refuses a rank with the prefixes %j", (own) => {
    expect(() => plan(own)).toThrow(/exactly one key/);
  });
});
