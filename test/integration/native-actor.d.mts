import type * as Layout from "../../src/blocks/layout.ts";
import type { NativeBinding } from "../../src/native/binding.ts";

export interface WorldOptions {
  poolName: string;
  blockBytes?: number;
  blockCount?: number;
  bytesMax?: number;
  ioThreads?: number;
  verifyChecksums?: boolean;
  /** KV memory of the test, of blockBytes * blockCount bytes; absent: a region of the addon. */
  memory?: Uint8Array;
}
/** What an actor on any thread needs; plain data and shared memory, so it can be posted. */
export interface World {
  hashes: Int32Array<SharedArrayBuffer>;
  hashesSharedId: number;
  regionId: number;
  keySpaceId: number;
  engineId: number;
  blockBytes: number;
  blockCount: number;
}
export type Entry = readonly [block: number, hashRow: number, group?: number, prefix?: number];

export function openWorld(
  native: NativeBinding,
  layout: typeof Layout,
  options: WorldOptions,
): World;
export class Actor {
  constructor(
    native: NativeBinding,
    layout: typeof Layout,
    world: World,
    options?: { keepLoopAlive?: boolean; batchSlots?: number; keysPerBatchMax?: number },
  );
  readonly wakeId: number;
  readonly channelId: number;
  readonly control: Int32Array<SharedArrayBuffer>;
  /** Batches submitted, not awaited. */
  submit(slot: number, operation: number, entries: readonly Entry[]): void;
  take(): Promise<{ slot: number; status: number; tag: number; microseconds: number }>;
  run(operation: number, entries: readonly Entry[]): Promise<number[]>;
  tiers(slot: number, count: number): number[];
  close(): void;
}
