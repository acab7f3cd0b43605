/**
 * Goal: the store's JSON file means what it means in vLLM, and is refused where vLLM refuses it.
 * Method: all sizes and all files of the golden file; ValueError is INVALID_VALUE, TypeError INVALID_TYPE.
 */
import { describe, expect, it } from "vitest";
import { parseSizeBytes } from "../../src/config/sizes.ts";
import { parseStoreConfig } from "../../src/config/store-config.ts";
import { readVectors } from "./vectors.ts";

interface StoreConfigFile {
  sizes: { value: unknown; result?: number | boolean; error?: string }[];
  files: { file: unknown; result?: Record<string, unknown>; error?: string }[];
}

const CODES: Readonly<Record<string, string>> = {
  ValueError: "INVALID_VALUE",
  TypeError: "INVALID_TYPE",
};
const vectors = readVectors<StoreConfigFile>("store_config");

describe("store configuration", () => {
  it("sizes equal vLLM's (28 cases)", () => {
    expect(vectors.sizes.length).toBe(28);
    for (const one of vectors.sizes) {
      const parse = (): number => parseSizeBytes(one.value, "size");
      const label = JSON.stringify(one.value);
      if (one.error !== undefined) {
        expect(parse, label).toThrow(
          expect.objectContaining({ code: CODES[one.error], field: "size", value: one.value }),
        );
      } else {
        expect(parse(), label).toBe(Number(one.result));
      }
    }
  });

  it("files equal vLLM's (18 cases)", () => {
    expect(vectors.files.length).toBe(18);
    for (const one of vectors.files) {
      const label = JSON.stringify(one.file);
      if (one.error !== undefined) {
        expect(() => parseStoreConfig(one.file), label).toThrow(
          expect.objectContaining({ code: CODES[one.error] }),
        );
        continue;
      }
      const config = parseStoreConfig(one.file);
      expect(
        {
          metadata_server: config.metadataServer,
          master_server_address: config.masterServerAddress,
          protocol: config.protocol,
          device_name: config.deviceName,
          mode: config.mode,
          global_segment_size: config.globalSegmentBytes,
          local_buffer_size: config.localBufferBytes,
          enable_offload: config.enableOffload,
          tenant_id: config.tenantId,
        },
        label,
      ).toEqual(one.result);
    }
  });
});
