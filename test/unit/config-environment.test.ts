/**
 * Goal: each environment variable of the connector is read with vLLM's name, default and meaning.
 * Method: variables as a shell sets them; nothing is taken from the test's own environment.
 */
import { describe, expect, it } from "vitest";
import { readEnvironment } from "../../src/config/environment.ts";

describe("readEnvironment", () => {
  it("has vLLM's defaults", () => {
    expect(readEnvironment({})).toEqual({
      configPath: null,
      hashSeed: null,
      bootstrapPort: 8998,
      preferredSegment: null,
      requesterLocalHostname: null,
      storeTierLog: false,
      kvEventIntegerHashes: true,
      hostAddress: null,
      diskStagingUsableRatio: 0.9,
      offloadBufferBytes: null,
      loadReceiveThreads: 1,
      rpcBasePath: null,
      python: null,
      searchPath: "",
    });
  });

  it("reads every variable", () => {
    expect(
      readEnvironment({
        MOONCAKE_CONFIG_PATH: "/etc/store.json",
        PYTHONHASHSEED: "0",
        VLLM_MOONCAKE_BOOTSTRAP_PORT: "9000",
        MOONCAKE_PREFERRED_SEGMENT: " 127.0.0.1:50053 ",
        MOONCAKE_REQUESTER_LOCAL_HOSTNAME: "node-1",
        VLLM_MOONCAKE_STORE_TIER_LOG: "True",
        VLLM_MOONCAKE_DISK_STAGING_USABLE_RATIO: "0.5",
        MOONCAKE_OFFLOAD_LOCAL_BUFFER_SIZE_BYTES: "1048576",
        VLLM_MOONCAKE_LOAD_RECV_THREADS: "4",
        VLLM_RPC_BASE_PATH: "/run/vllm",
        VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES: "0",
        VLLM_HOST_IP: "10.0.0.5",
        MOONCAKE_PYTHON: "/opt/python",
        VLLM_KV_CACHE_LAYOUT: "HND",
      }),
    ).toEqual({
      configPath: "/etc/store.json",
      hashSeed: "0",
      bootstrapPort: 9000,
      preferredSegment: "127.0.0.1:50053",
      requesterLocalHostname: "node-1",
      storeTierLog: true,
      kvEventIntegerHashes: false,
      hostAddress: "10.0.0.5",
      diskStagingUsableRatio: 0.5,
      offloadBufferBytes: 1_048_576,
      loadReceiveThreads: 4,
      rpcBasePath: "/run/vllm",
      python: "/opt/python",
      kvCacheLayout: "LBHNC",
      searchPath: "",
    });
  });

  it("tells an empty hash seed from an unset one, and takes blank names as unset", () => {
    expect(readEnvironment({ PYTHONHASHSEED: "" }).hashSeed).toBe("");
    expect(
      readEnvironment({ MOONCAKE_CONFIG_PATH: "", MOONCAKE_PREFERRED_SEGMENT: "  " }),
    ).toMatchObject({
      configPath: null,
      preferredSegment: null,
    });
    expect(readEnvironment({ VLLM_MOONCAKE_LOAD_RECV_THREADS: "0" }).loadReceiveThreads).toBe(1);
  });

  it.each([
    ["VLLM_MOONCAKE_BOOTSTRAP_PORT", "http"],
    ["VLLM_MOONCAKE_BOOTSTRAP_PORT", "70000"],
    ["MOONCAKE_OFFLOAD_LOCAL_BUFFER_SIZE_BYTES", "0"],
    ["VLLM_MOONCAKE_DISK_STAGING_USABLE_RATIO", "0"],
    ["VLLM_MOONCAKE_DISK_STAGING_USABLE_RATIO", "1.1"],
    ["VLLM_MOONCAKE_DISK_STAGING_USABLE_RATIO", ""],
    ["VLLM_MOONCAKE_DISK_STAGING_USABLE_RATIO", "0x1"],
    ["VLLM_MOONCAKE_DISK_STAGING_USABLE_RATIO", "90%"],
    ["VLLM_MOONCAKE_LOAD_RECV_THREADS", "two"],
  ])("refuses %s=%s", (name, value) => {
    expect(() => readEnvironment({ [name]: value })).toThrow(
      expect.objectContaining({ code: "INVALID_VALUE", field: name, value }),
    );
  });
});
