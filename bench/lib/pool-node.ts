import {
  channelWords,
  HASH_PAGE_WORDS,
  HASH_STRIDE_WORDS,
  HASHES_PER_PAGE,
  NONE,
  OPERATION_EXISTS,
  PAGE_HEADER_WORDS,
} from "../../src/blocks/layout.ts";
import type { MooncakeEngineOptions, NativeBinding } from "../../src/native/binding.ts";
import type { EngineChannel } from "../../src/store/engine.ts";
import { attachNativeChannel } from "../../src/store/native-channel.ts";

export interface PoolShape {
  readonly segments: number;
  readonly bytes: number;
  readonly blocks: number;
}

const CHANNEL = { batchSlots: 4, keysPerBatchMax: 2048 };
const HASH_ROWS = 4096;
/** As long as the pool keys of a real model. */
const PREFIX = "Llama-3.1-8B-Instruct@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0";

/** One member of the pool in this process, as loader, saver and lookup actor use it: a channel, a key space, a region. */
export class PoolNode {
  readonly #native: NativeBinding;
  readonly #hashesSharedId: number;
  readonly #regionId: number;
  readonly #sharedId: number;
  readonly #wakeId: number;
  readonly #channelId: number;
  readonly #channel: EngineChannel;
  readonly engineId: number;
  #keySpaceId = NONE;
  #woken = (): void => undefined;

  constructor(native: NativeBinding, options: MooncakeEngineOptions, regionBytes: number) {
    this.#native = native;
    this.#hashesSharedId = native.sharedRegister(new Uint8Array(hashRows().buffer));
    this.#regionId = native.regionCreate(regionBytes);
    new Uint8Array(native.regionView(this.#regionId)).fill(7);
    this.engineId = native.engineOpen(options);
    const words = new Int32Array(new SharedArrayBuffer(channelWords(CHANNEL) * 4));
    this.#sharedId = native.sharedRegister(new Uint8Array(words.buffer));
    this.#wakeId = native.wakeReserve();
    native.wakeOpen(this.#wakeId, () => this.#woken(), true);
    const { engineId } = this;
    const [sharedId, wakeId] = [this.#sharedId, this.#wakeId];
    const opened = { engineId, sharedId, wordOffset: 0, ...CHANNEL, wakeId };
    this.#channelId = native.channelOpen(opened);
    const parts = { words, shape: CHANNEL, binding: native, channelId: this.#channelId, epoch: 1 };
    this.#channel = attachNativeChannel(parts);
  }

  async opened(): Promise<void> {
    while (this.#native.engineState(this.engineId).state !== "open")
      await new Promise((resolve) => setTimeout(resolve, 20));
  }

  /** Blocks of this shape from now on. Segments of a block lie apart, as those of layers do. */
  useShape({ segments, bytes, blocks }: PoolShape): void {
    if (this.#keySpaceId !== NONE) this.#native.keySpaceRelease(this.#keySpaceId);
    const rule = (_: unknown, index: number): object => ({
      regionId: this.#regionId,
      offset: index * bytes * blocks,
      strideBytes: bytes,
      bytes,
    });
    this.#keySpaceId = this.#native.keySpaceRegister({
      hashesSharedId: this.#hashesSharedId,
      hashBytes: 32,
      prefixes: [PREFIX],
      groups: [Array.from({ length: segments }, rule) as never],
      blockCount: blocks,
    });
    this.#native.engineUseKeySpace(this.engineId, this.#keySpaceId);
  }

  key(row: number): string {
    return this.#native.keyOf(this.#keySpaceId, 0, row);
  }

  /**
   * One batch of keys [row, row + count) with blocks from 0: nanoseconds from filling its entries until its results are looked
   * through. Throws when a result is below `least`.
   */
  async run(operation: number, row: number, count: number, least: number): Promise<number> {
    const channel = this.#channel;
    const start = this.#native.monotonicNanoseconds();
    const slot = channel.acquire();
    const entries = channel.entries(slot);
    for (let index = 0, at = 0; index < count; index++) {
      entries[at++] = 0;
      entries[at++] = 0;
      entries[at++] = operation === OPERATION_EXISTS ? NONE : index;
      entries[at++] = row + index;
    }
    const woken = (): Promise<void> => new Promise((resolve) => (this.#woken = resolve));
    let wake = woken();
    channel.submit(slot, operation, this.#keySpaceId, count, 0, 0);
    while (channel.poll() < 0) {
      await wake;
      wake = woken();
    }
    const results = channel.results(slot);
    let good = channel.status(slot) === 0;
    for (let index = 0; index < count; index++) good &&= results[index]! >= least;
    const nanoseconds = this.#native.monotonicNanoseconds() - start;
    if (!good)
      throw new Error(`operation ${operation} answers ${channel.status(slot)}, ${results[0]}`);
    channel.release(slot);
    return nanoseconds;
  }

  close(): void {
    this.#native.channelClose(this.#channelId);
    this.#native.wakeClose(this.#wakeId);
    this.#native.engineClose(this.engineId, 10_000);
    this.#native.keySpaceRelease(this.#keySpaceId);
    for (const id of [this.#sharedId, this.#hashesSharedId]) this.#native.sharedRelease(id);
    this.#native.regionRelease(this.#regionId);
  }
}

/** Every row another digest. */
function hashRows(): Int32Array {
  const pages = Math.ceil(HASH_ROWS / HASHES_PER_PAGE);
  const words = new Int32Array(new SharedArrayBuffer(pages * HASH_PAGE_WORDS * 4));
  for (let row = 0; row < HASH_ROWS; row++) {
    const first = Math.floor(row / HASHES_PER_PAGE) * HASH_PAGE_WORDS + PAGE_HEADER_WORDS;
    const at = first + (row % HASHES_PER_PAGE) * HASH_STRIDE_WORDS;
    words.fill(1 + row, at, at + HASH_STRIDE_WORDS);
  }
  return words;
}
