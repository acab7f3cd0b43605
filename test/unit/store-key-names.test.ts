/**
 * Goal: a cache_prefix names the keys of its own deployments only, whatever letters it has: not those of a model of that name, nor of
 * longer prefixes.
 * Method: keys as the rules of interchange make them, of prefixes, models and shapes that are easily mistaken for each other.
 */
import { expect, test } from "vitest";
import { identityKey } from "../../src/connector/identity/identity.ts";
import { normalizeKvCacheConfig } from "../../src/config/kv-cache-normalize.ts";
import { poolKey, poolKeyPrefixes } from "../../src/keys/pool-keys.ts";
import {
  cachePrefixPattern,
  hasCachePrefix,
  longerCachePrefix,
} from "../../src/store/key-names.ts";
import { KV_CACHE } from "../integration/support/embedded.ts";

const SHAPES = [null, { storeTpSize: 2 }, { storeTpSize: 3 }];

/** A deployment's keys, one of each kind. */
function keysOf(cachePrefix: string, modelName: string): string[] {
  const topology = normalizeKvCacheConfig({ ...KV_CACHE, modelName });
  const blocks = SHAPES.map((storeTp) => {
    const [group] = poolKeyPrefixes(topology, { cachePrefix, storeTp }).groups;
    return poolKey(group?.own[0] ?? "", "00ff");
  });
  return [...blocks, `${blocks[0] ?? ""}@beside`, identityKey(modelName, cachePrefix)];
}

/** By the predicate and by the pattern that the master gets. */
function isNamed(key: string, prefix: string): boolean {
  const named = hasCachePrefix(key, prefix);
  expect(new RegExp(cachePrefixPattern(prefix)).test(key), key).toBe(named);
  return named;
}

test.each([
  "X",
  "team.a",
  "a+b",
  "(a|b)*",
  "[x]",
  "a\\d",
  "^a$",
  "a{2}",
  "X@Y",
  "a b",
  "\u00e4/\u00f6",
  "@",
])("the prefix %s", (prefix) => {
  for (const model of [
    "model",
    "org/model",
    "X",
    prefix.replaceAll("@", ""),
    "store_x",
    "mooncake-kv-7b",
  ])
    if (model !== "")
      for (const key of keysOf(prefix, model)) expect(isNamed(key, prefix), key).toBe(true);
  for (const other of ["", `${prefix}2`, `a${prefix}`, `${prefix}@Z`, "aab", "aXb", "team-a"])
    for (const model of ["model", "mooncake-kv-7b", prefix.replaceAll("@", "") || "m"])
      for (const key of keysOf(other, model)) expect(isNamed(key, prefix), key).toBe(false);
});

test("prefixes that go on behind an @ are named", () => {
  for (const key of keysOf("X@Y", "model")) expect(longerCachePrefix(key, "X")).toBe("X@Y");
  for (const key of [...keysOf("X", "model"), ...keysOf("", "X"), ...keysOf("X2", "model")])
    expect(longerCachePrefix(key, "X")).toBeNull();
});
