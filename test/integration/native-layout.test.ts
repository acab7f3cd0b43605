/**
 * Goal: native code and JavaScript agree on every word of shared memory that both touch.
 * Method: the addon tells the constants it was compiled with; each must be in layout.ts with the same value, and every
 * channel, page and hash constant of layout.ts must be among them.
 */
import { expect, test } from "vitest";

import * as layout from "../../src/blocks/layout.ts";
import { loadNative } from "../../src/native/load.ts";

const byName: Record<string, unknown> = { ...layout };

test("constants of the addon equal those of layout.ts", () => {
  const constants = loadNative().layoutConstants();
  for (const [name, value] of Object.entries(constants))
    expect([name, byName[name]]).toEqual([name, value]);
});

test("no constant of channels, pages and hashes is missing in the addon", () => {
  const shared = /^(CHANNEL|COMPLETION|BATCH|ENTRY|OPERATION|TIER|PAGE|TOKEN|TOKENS|HASH|HASHES)_/;
  const wanted = Object.keys(layout).filter((name) => shared.test(name));
  expect(wanted.length).toBeGreaterThan(40);
  const constants = loadNative().layoutConstants();
  expect(wanted.filter((name) => !(name in constants))).toEqual([]);
});
