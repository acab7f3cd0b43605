/**
 * Goal: nothing in a folder of vectors goes by unnoticed: what is of no known kind, holds no case or cannot be read counts as a
 * failure, and so does a case whose configuration has a field that nothing reads.
 * Method: a folder made for the test.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { kindOf, runFolder } from "./runner/run-folder.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "vectors-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

const NONE = { algo: "sha256_cbor", seed: "0" };
const good = "4e1195df020de59e0d65a33a4279f1183e7ae4e5d980e309f8b55adff2e61c3e";

it("counts every file", () => {
  const put = (name: string, contents: unknown): void =>
    writeFileSync(join(folder, name), JSON.stringify(contents));
  put("none_hash-more.json", {
    cases: [
      { ...NONE, none_hash: good },
      { ...NONE, none_hash: "00" },
    ],
  });
  put("masks.json", { cases: [] });
  put("masks_2.json", { cases: [{ config: { speed: 3 }, token_len: 16, start_token: 0 }] });
  put("segments.json", {});
  put("unheard_of.json", { cases: [] });
  writeFileSync(join(folder, "disk_split.json"), "{");
  writeFileSync(join(folder, "README.md"), "about the files");
  writeFileSync(join(folder, "masks.txt"), "no vectors");
  mkdirSync(join(folder, "inner.json"));
  const counted = Object.fromEntries(
    runFolder(folder).map(({ file, passed, failed }) => [file, [passed, failed]]),
  );
  expect(counted).toEqual({
    "disk_split.json": [0, 1],
    "inner.json": [0, 1],
    "masks.json": [0, 1],
    "masks.txt": [0, 1],
    "masks_2.json": [0, 1],
    "none_hash-more.json": [1, 1],
    "segments.json": [0, 1],
    "unheard_of.json": [0, 1],
  });
});

it("tells kinds by the longest beginning of a name", () => {
  expect(kindOf("hashes_sha256.json")?.name).toBe("hashes_sha256");
  expect(kindOf("hashes_sha256_cbor.json")?.name).toBe("hashes_sha256_cbor");
  expect(kindOf("hashes_sha256_cbor_2.json")?.name).toBe("hashes_sha256_cbor");
  expect(kindOf("hashes_sha256x.json")).toBeNull();
  expect(kindOf("hashes.json")).toBeNull();
});
