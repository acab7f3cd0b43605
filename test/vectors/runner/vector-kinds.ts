/** Every kind of vector file. */
import type { VectorKind } from "./cases.ts";
import { hashInputs, hashKinds, noneHashes } from "./kinds/hashes.ts";
import { masks } from "./kinds/masks.ts";
import { lookupHits } from "./kinds/lookup-hits.ts";
import { poolKeys } from "./kinds/pool-keys.ts";
import { schedulerTraces } from "./kinds/scheduler-traces.ts";
import { segments } from "./kinds/segments.ts";
import { diskSplits } from "./kinds/disk-split.ts";
import { lookupWire } from "./kinds/lookup-wire.ts";
import { p2p } from "./kinds/p2p.ts";
import { workerLoads } from "./kinds/worker-loads.ts";
import { workerSaves } from "./kinds/worker-saves.ts";
import { storeConfigs } from "./kinds/store-config.ts";

export const VECTOR_KINDS: readonly VectorKind[] = [
  noneHashes,
  ...hashKinds,
  hashInputs,
  storeConfigs,
  masks,
  lookupHits,
  poolKeys,
  segments,
  diskSplits,
  lookupWire,
  p2p,
  workerSaves,
  workerLoads,
  schedulerTraces,
];
