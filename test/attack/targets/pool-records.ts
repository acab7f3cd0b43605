/** Files in the folder of recorded pools. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readPools } from "../../../src/pool/state.ts";
import type { Attempt, Target } from "../attack.ts";
import { mutateBytes, mutateValue } from "../mutate.ts";

const PROCESS = { name: "mooncake_master", pid: 1, startTicks: 1 };
const RECORD = {
  version: 1,
  keeper: PROCESS,
  processes: [PROCESS],
  port: 50051,
  metricsPort: 9003,
  store: {
    mode: "standalone-store",
    metadata_server: "P2PHANDSHAKE",
    master_server_address: "127.0.0.1:50051",
    global_segment_size: 0,
    local_buffer_size: 1,
    protocol: "tcp",
    device_name: "",
    enable_offload: false,
  },
  segments: ["127.0.0.1:1"],
};

export const POOL_RECORDS: Target = {
  name: "pool records",
  open: () => {
    const pools = mkdtempSync(join(tmpdir(), "attack-pools-"));
    const folder = join(pools, "pool");
    return {
      try: (random): Attempt => {
        const value =
          random.below(2) === 0
            ? mutateBytes(Buffer.from(JSON.stringify(RECORD)), random)
            : Buffer.from(JSON.stringify(mutateValue(RECORD, random)) ?? "");
        return {
          input: value.toString("latin1"),
          bytes: value.length,
          run: () => {
            mkdirSync(folder, { recursive: true });
            writeFileSync(join(folder, "pool.json"), value);
            readPools(pools);
          },
        };
      },
      heal: () => {
        rmSync(folder, { recursive: true, force: true });
        const { living, broken } = readPools(pools);
        if (living.length + broken.length > 0) throw new Error("an empty folder holds a pool");
      },
      close: () => rmSync(pools, { recursive: true, force: true }),
    };
  },
};
