/**
 * Goal: beyond parsing as vLLM does, a store configuration that cannot work is refused before the engine is set up, and one
 * that probably is not meant is warned of.
 * Method: real files in a temporary folder, and parsed objects.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import {
  checkStoreConfig,
  loadStoreConfig,
  parseStoreConfig,
} from "../../src/config/store-config.ts";

const folder = mkdtempSync(join(tmpdir(), "mooncake-kv-config-"));
afterAll(() => rmSync(folder, { recursive: true }));

const GOOD = {
  metadata_server: "P2PHANDSHAKE",
  master_server_address: "127.0.0.1:50051",
  protocol: "tcp",
};

function file(content: string): string {
  const path = join(folder, "store.json");
  writeFileSync(path, content);
  return path;
}
function warnedFields(store: Record<string, unknown>, preferredSegment: string | null): string[] {
  return checkStoreConfig(store, parseStoreConfig(store), preferredSegment).map(
    (warning) => warning.field,
  );
}

describe("loadStoreConfig", () => {
  it("reads a good file without warnings", () => {
    const { config, warnings } = loadStoreConfig(
      file(JSON.stringify({ ...GOOD, global_segment_size: "1.5gb" })),
      null,
    );
    expect(config).toMatchObject({
      protocol: "tcp",
      globalSegmentBytes: 1.5 * 1024 ** 3,
      mode: "embedded",
    });
    expect(warnings).toEqual([]);
  });

  it("names the variable when it is unset or the file is missing", () => {
    const missing = expect.objectContaining({ code: "MISSING", field: "MOONCAKE_CONFIG_PATH" });
    expect(() => loadStoreConfig(null, null)).toThrow(missing);
    expect(() => loadStoreConfig(join(folder, "absent.json"), null)).toThrow(missing);
  });

  it("names the file when it is no JSON, and refuses what is no object", () => {
    const path = file("{ not json");
    expect(() => loadStoreConfig(path, null)).toThrow(
      expect.objectContaining({ code: "INVALID_VALUE", field: path }),
    );
    expect(() => loadStoreConfig(file("[1]"), null)).toThrow(
      expect.objectContaining({ code: "INVALID_TYPE" }),
    );
  });
});

describe("checkStoreConfig", () => {
  it.each([
    ["master_server_address", "MISSING", { ...GOOD, master_server_address: "" }],
    ["protocol", "INVALID_VALUE", { ...GOOD, protocol: "http" }],
  ])("refuses a bad %s", (field, code, store) => {
    expect(() => checkStoreConfig(store, parseStoreConfig(store), null)).toThrow(
      expect.objectContaining({ field, code, remedy: expect.stringMatching(/\w{3}/) }),
    );
  });

  it("warns of what is accepted but probably not meant", () => {
    expect(warnedFields(GOOD, null)).toEqual([]);
    expect(warnedFields({ ...GOOD, metadata_server: "" }, null)).toEqual(["metadata_server"]);
    expect(warnedFields({ ...GOOD, enable_offload: true }, null)).toEqual(["enable_offload"]);
    expect(warnedFields({ ...GOOD, enable_offload: true }, "127.0.0.1:1")).toEqual([
      "MOONCAKE_PREFERRED_SEGMENT",
    ]);
    expect(warnedFields({ ...GOOD, enable_offload: "false" }, "127.0.0.1:1")).toEqual([
      "enable_offload",
      "MOONCAKE_PREFERRED_SEGMENT",
    ]);
    const standalone = { ...GOOD, mode: "standalone-store", global_segment_size: 0 };
    expect(warnedFields(standalone, "127.0.0.1:1")).toEqual(["enable_offload"]);
    expect(warnedFields({ ...standalone, enable_offload: true }, "127.0.0.1:1")).toEqual([]);
  });

  it("names the nearest field for an unknown one", () => {
    const store = { ...GOOD, globl_segment_size: 1 };
    const warnings = checkStoreConfig(store, parseStoreConfig(store), null);
    expect(warnings).toMatchObject([
      { field: "globl_segment_size", remedy: expect.stringContaining("global_segment_size") },
    ]);
  });

  it("refuses a negative segment, which vLLM would hand to the store", () => {
    expect(() => parseStoreConfig({ ...GOOD, global_segment_size: -1 })).toThrow(
      expect.objectContaining({ field: "global_segment_size", code: "INVALID_VALUE" }),
    );
  });
});
