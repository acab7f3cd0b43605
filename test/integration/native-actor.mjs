// An actor's side of an engine channel and a small world of KV memory, in plain JavaScript so that worker threads of the tests
// run it as it is. Types: native-actor.d.mts.

export function openWorld(native, layout, options) {
  const {
    blockBytes = 4096,
    blockCount = 64,
    bytesMax = 64 << 20,
    ioThreads = 1,
    verifyChecksums = true,
  } = options;
  const pages = 8;
  const hashes = new Int32Array(new SharedArrayBuffer(pages * layout.HASH_PAGE_WORDS * 4));
  for (let row = 0; row < pages * layout.HASHES_PER_PAGE; row++) {
    const page = Math.floor(row / layout.HASHES_PER_PAGE);
    const index = row % layout.HASHES_PER_PAGE;
    const first =
      page * layout.HASH_PAGE_WORDS + layout.PAGE_HEADER_WORDS + index * layout.HASH_STRIDE_WORDS;
    hashes.fill(row, first, first + layout.HASH_STRIDE_WORDS);
  }
  const hashesSharedId = native.sharedRegister(new Uint8Array(hashes.buffer));
  const regionId =
    options.memory === undefined
      ? native.regionCreate(blockBytes * blockCount)
      : native.regionPin(options.memory);
  const half = blockBytes / 2;
  const segment = (offset) => ({ regionId, offset, strideBytes: half, bytes: half });
  const keySpaceId = native.keySpaceRegister({
    hashesSharedId,
    hashBytes: 32,
    prefixes: ["model@tp_rank:0"],
    groups: [[segment(0), segment(half * blockCount)]],
    blockCount,
  });
  const engineId = native.engineOpen({
    kind: "local",
    poolName: options.poolName,
    bytesMax,
    ioThreads,
    verifyChecksums,
  });
  return { hashes, hashesSharedId, regionId, keySpaceId, engineId, blockBytes, blockCount };
}

export class Actor {
  #native;
  #layout;
  #world;
  #shape;
  #woken = () => {};
  #head = 0;

  constructor(native, layout, world, options = {}) {
    const { keepLoopAlive = true, batchSlots = 4, keysPerBatchMax = 64 } = options;
    this.#native = native;
    this.#layout = layout;
    this.#world = world;
    this.#shape = { batchSlots, keysPerBatchMax };
    this.control = new Int32Array(new SharedArrayBuffer(layout.channelWords(this.#shape) * 4));
    this.sharedId = native.sharedRegister(new Uint8Array(this.control.buffer));
    this.wakeId = native.wakeReserve();
    native.wakeOpen(this.wakeId, () => this.#woken(), keepLoopAlive);
    const { engineId } = world;
    this.channelId = native.channelOpen({
      engineId,
      sharedId: this.sharedId,
      wordOffset: 0,
      batchSlots,
      keysPerBatchMax,
      wakeId: this.wakeId,
    });
  }

  #header(slot) {
    const { layout, shape } = { layout: this.#layout, shape: this.#shape };
    const words = layout.channelWords(shape) - shape.batchSlots * layout.batchWords(shape);
    return words + slot * layout.batchWords(shape);
  }

  submit(slot, operation, entries) {
    const layout = this.#layout;
    const header = this.#header(slot);
    this.control[header + layout.BATCH_OPERATION] = operation;
    this.control[header + layout.BATCH_COUNT] = entries.length;
    this.control[header + layout.BATCH_TAG] = 1000 + slot;
    this.control[header + layout.BATCH_KEY_SPACE] = this.#world.keySpaceId;
    entries.forEach(([block, hashRow, group = 0, prefix = 0], index) => {
      this.control.set(
        [group, prefix, block, hashRow],
        header + layout.BATCH_HEADER_WORDS + index * layout.ENTRY_WORDS,
      );
    });
    Atomics.store(this.control, header + layout.BATCH_STATE_WORD, layout.BATCH_STATE_SUBMITTED);
    this.#native.channelSubmit(this.channelId, slot);
  }

  async take() {
    const layout = this.#layout;
    for (;;) {
      const woken = new Promise((resolve) => {
        this.#woken = resolve;
      });
      // Pairs with the release store by the I/O thread, which wakes after it: looking first, then waiting, misses nothing.
      if (Atomics.load(this.control, layout.CHANNEL_TAIL_WORD) !== this.#head) break;
      await woken;
    }
    const index = this.#head & (layout.completionSlots(this.#shape) - 1);
    const first = layout.CHANNEL_HEADER_WORDS + index * layout.COMPLETION_WORDS;
    const [slot, status, tag, microseconds] = this.control.subarray(
      first,
      first + layout.COMPLETION_WORDS,
    );
    this.#head = (this.#head + 1) | 0;
    Atomics.store(this.control, layout.CHANNEL_HEAD_WORD, this.#head);
    return { slot, status, tag, microseconds };
  }

  async run(operation, entries) {
    this.submit(0, operation, entries);
    await this.take();
    const layout = this.#layout;
    const first =
      this.#header(0) +
      layout.BATCH_HEADER_WORDS +
      this.#shape.keysPerBatchMax * layout.ENTRY_WORDS;
    return [...this.control.subarray(first, first + entries.length)];
  }

  tiers(slot, count) {
    const layout = this.#layout;
    const first =
      this.#header(slot) +
      layout.BATCH_HEADER_WORDS +
      this.#shape.keysPerBatchMax * (layout.ENTRY_WORDS + 1);
    return [...this.control.subarray(first, first + count)];
  }

  close() {
    this.#native.channelClose(this.channelId);
    this.#native.wakeClose(this.wakeId);
    this.#native.sharedRelease(this.sharedId);
  }
}
