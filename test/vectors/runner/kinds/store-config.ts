/** Sizes and whole store files. Python's messages are for information: the kind of error is compared. */
import { parseSizeBytes } from "../../../../src/config/sizes.ts";
import { parseStoreConfig } from "../../../../src/config/store-config.ts";
import { MooncakeKvError } from "../../../../src/errors.ts";
import { Cases } from "../cases.ts";
import type { VectorKind } from "../cases.ts";

interface StoreConfigFile {
  readonly sizes: readonly { value: unknown; result?: number | boolean; error?: string }[];
  readonly files: readonly { file: unknown; result?: Record<string, unknown>; error?: string }[];
}

const CODES: Readonly<Record<string, string>> = {
  ValueError: "INVALID_VALUE",
  TypeError: "INVALID_TYPE",
};

export const storeConfigs: VectorKind = {
  name: "store_config",
  run(contents) {
    const { sizes, files } = contents as StoreConfigFile;
    const report = new Cases();
    for (const { value, result, error } of sizes) {
      report.run(`size ${JSON.stringify(value)}`, (check) => {
        const ours = outcome(() => parseSizeBytes(value, "size"));
        // Python's True is the integer 1.
        check.equal("size", ours, error === undefined ? Number(result) : { code: CODES[error] });
      });
    }
    for (const { file, result, error } of files) {
      report.run(`file ${JSON.stringify(file)}`, (check) => {
        const ours = outcome(() => storeFields(file));
        check.equal("file", ours, error === undefined ? result : { code: CODES[error] });
      });
    }
    return report;
  },
};

function outcome(parse: () => unknown): unknown {
  try {
    return parse();
  } catch (error) {
    if (error instanceof MooncakeKvError) return { code: error.code };
    throw error;
  }
}

function storeFields(file: unknown): Record<string, unknown> {
  const config = parseStoreConfig(file);
  return {
    metadata_server: config.metadataServer,
    master_server_address: config.masterServerAddress,
    protocol: config.protocol,
    device_name: config.deviceName,
    mode: config.mode,
    global_segment_size: config.globalSegmentBytes,
    local_buffer_size: config.localBufferBytes,
    enable_offload: config.enableOffload,
    tenant_id: config.tenantId,
  };
}
