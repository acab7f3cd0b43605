// Runs inside the virtual machine: a real master, an owner and two connectors of this process, every byte over RDMA verbs.
// Prints one JSON line: what was found, loaded and compared, and how a request went on whose owner was killed.
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { attachConnector } from "../../dist/index.js";
import { requireWheel } from "../../dist/store/mooncake/interpreter.js";
import { startPool } from "../../dist/pool/pool.js";

const BLOCK = 16;
const BLOCKS = 64;
const BLOCK_BYTES = 65_536;
const MIB = 2 ** 20;
const LOAD_TIMEOUT_MS = 2_000;
/** The wheel fails the read of a dead owner after 60 s; its store, which must be closed then, took another 10. */
const PATIENCE_MS = 120_000;
const root = new URL("../..", import.meta.url).pathname;
const [protocol, device] = process.argv.slice(2);

/** A serving loop with a stand-in for the model, one request at a time. */
class Loop {
  #next = 1;
  constructor(attached, pins, kv) {
    this.attached = attached;
    this.pins = pins;
    this.kv = kv;
  }
  /** With KV memory of the runtime, or of the loop's `own`. */
  static async attach(storePath, own) {
    const pins = new Map();
    const rule = { offset: 0, strideBytes: BLOCK_BYTES, bytes: BLOCK_BYTES };
    const count = (ids, length, by) => {
      for (const id of ids.subarray(0, length)) pins.set(id, (pins.get(id) ?? 0) + by);
    };
    const attached = await attachConnector({
      kvCache: {
        modelName: "org/model",
        dtype: "float16",
        blockSize: BLOCK,
        blockCount: BLOCKS,
        groups: [{ kind: "full", layers: 4 }],
        heads: { kvHeads: 4, headSize: 64 },
      },
      kvTransferConfig: {
        kv_connector: "MooncakeStoreConnector",
        kv_role: "kv_both",
        kv_connector_extra_config: {
          engine: "mooncake",
          lookup_async: true,
          lookup_timeout_ms: 30_000,
          load_timeout_ms: LOAD_TIMEOUT_MS,
        },
      },
      environment: { ...process.env, MOONCAKE_CONFIG_PATH: storePath },
      logLevel: "warn",
      kvMemory: own && { kind: "user", memory: own, segments: [[rule]] },
      blockPool: {
        pin: (ids, length) => count(ids, length, 1),
        unpin: (ids, length) => count(ids, length, -1),
      },
    });
    // Under emulation the engine opens later than the runtime waits for it.
    while ((await attached.dump()).engine.state !== "open")
      await new Promise((resolve) => setTimeout(resolve, 100));
    return new Loop(attached, pins, own ?? new Uint8Array(attached.kvMemory));
  }
  get pinned() {
    return [...this.pins.values()].filter((count) => count > 0).length;
  }
  blocks(count) {
    this.#next += count;
    return Array.from({ length: count }, (_, index) => this.#next - count + index);
  }
  async step(scheduled = [], runModel = () => {}, preempted = []) {
    const { scheduler, worker } = this.attached.connector;
    const metadata = scheduler.buildConnectorMeta({ scheduled, preempted });
    worker.startLoadKv(metadata);
    runModel();
    worker.waitForSave(metadata);
    const done = worker.getFinished();
    scheduler.updateConnectorOutput(done);
    await new Promise((resolve) => setTimeout(resolve, 5));
    return done;
  }
  async match(id) {
    for (;;) {
      const [found] = this.attached.connector.scheduler.getNumNewMatchedTokens(id, 0);
      if (found !== null) return found;
      await this.step();
    }
  }
  async save(id, prompt, fill) {
    const { scheduler } = this.attached.connector;
    scheduler.addRequest(id, prompt);
    const found = await this.match(id);
    const blocks = this.blocks(prompt.length / BLOCK);
    scheduler.updateStateAfterAlloc(id, [blocks], 0);
    const scheduledRequest = {
      id,
      numComputedTokens: 0,
      numScheduledTokens: prompt.length,
      newBlockIds: null,
    };
    await this.step([scheduledRequest], () => blocks.forEach(fill));
    scheduler.requestFinished(id, [blocks]);
    while (this.pinned > 0) await this.step();
    return { found, blocks };
  }
  /** Resolves with what arrived: tokens found, tokens kept, milliseconds, the blocks. */
  async load(id, prompt, meanwhile = async () => {}) {
    const { scheduler } = this.attached.connector;
    scheduler.addRequest(id, prompt);
    const found = await this.match(id);
    const blocks = this.blocks(prompt.length / BLOCK);
    await meanwhile();
    scheduler.updateStateAfterAlloc(id, [blocks], found);
    const began = performance.now();
    let kept = found;
    let abandoned = false;
    for (let loading = found > 0; loading;) {
      const { finishedRecving, failedLoads, abandonedRecving } = await this.step();
      kept = failedLoads.find((each) => each.id === id)?.keptTokens ?? kept;
      abandoned = abandonedRecving.includes(id);
      loading = !abandoned && !finishedRecving.includes(id);
    }
    if (abandoned) {
      // The engine may still write into the blocks: they stay pinned, and the request is computed in others.
      await this.step([], () => {}, [id]);
      kept = 0;
    }
    const milliseconds = performance.now() - began;
    return { found, kept, abandoned, milliseconds, blocks, outcome: scheduler.outcome(id) };
  }
  /** Computes the prompt of a request that was preempted, in fresh blocks; the request ends. */
  async compute(id, prompt) {
    const { scheduler } = this.attached.connector;
    const blocks = this.blocks(prompt.length / BLOCK);
    scheduler.updateStateAfterAlloc(id, [blocks], 0);
    const step = { id, numComputedTokens: 0, numScheduledTokens: prompt.length, newBlockIds: null };
    await this.step([step], () => blocks.forEach((block) => this.block(block).fill(block)));
    scheduler.requestFinished(id, [blocks]);
    return blocks;
  }
  block(id) {
    return this.kv.subarray(id * BLOCK_BYTES, (id + 1) * BLOCK_BYTES);
  }
}

const prompt = (seed) =>
  Array.from({ length: 8 * BLOCK + 1 }, (_, index) => seed * 1000 + index).slice(0, 8 * BLOCK);
const { mooncakeFolder } = await requireWheel({
  python: null,
  workingFolder: root,
  searchPath: "",
});
const pool = await startPool({
  mooncakeFolder,
  port: 0,
  owners: 1,
  memoryBytes: 64 * MIB,
  localBufferBytes: 16 * MIB,
  protocol,
  deviceName: device,
  ssdFolder: null,
  logFolder: null,
  ownerEnvironment: { MC_WORKERS_PER_CTX: "1" },
  onProgress: (text) => console.error(text),
});
const storePath = join(mkdtempSync("/tmp/rdma-"), "store.json");
writeFileSync(storePath, JSON.stringify(pool.store));
const packets = () =>
  protocol === "tcp"
    ? 0
    : Number(readFileSync(`/sys/class/infiniband/${device}/ports/1/hw_counters/sent_pkts`, "utf8"));
const before = packets();
const own = new Uint8Array(new SharedArrayBuffer(BLOCKS * BLOCK_BYTES));
const [writer, reader, owning] = [
  await Loop.attach(storePath),
  await Loop.attach(storePath),
  await Loop.attach(storePath, own),
];
/** What one saves and another loads. */
async function share(from, to, seed) {
  const saved = await from.save(`saved ${seed}`, prompt(seed), (id) =>
    from.block(id).fill(seed * 50 + id),
  );
  const { found, kept, outcome, blocks } = await to.load(`loaded ${seed}`, prompt(seed));
  const equal = blocks
    .slice(0, kept / BLOCK)
    .every((id, index) => Buffer.compare(to.block(id), from.block(saved.blocks[index])) === 0);
  return { found, kept, outcome, equal };
}
const loaded = await share(writer, reader, 1);
const intoOwn = await share(writer, owning, 3);
const outOfOwn = await share(owning, reader, 4);
await writer.save("again", prompt(2), (id) => writer.block(id).fill(id));
const lost = await reader.load("lost", prompt(2), async () => {
  const { process: owner } = pool.owners[0];
  process.kill(owner.pid, "SIGKILL");
  while (owner.end === null) await new Promise((resolve) => setTimeout(resolve, 10));
});
const pinnedAtOnce = reader.pinned;
// The request goes on: it computes its prompt in other blocks while the engine still holds those of the load.
const again = await reader.compute("lost", prompt(2));
const pinnedAfterwards = reader.pinned;
const waited = performance.now();
while (reader.pinned > 0 && performance.now() - waited < PATIENCE_MS) await reader.step();
console.log(
  JSON.stringify({
    loaded,
    intoOwn,
    outOfOwn,
    lost: {
      ...lost,
      blocks: undefined,
      computedInOtherBlocks: again.every((id) => !lost.blocks.includes(id)),
    },
    pinned: { atOnce: pinnedAtOnce, afterwards: pinnedAfterwards, atLast: reader.pinned },
    heldMilliseconds: performance.now() - waited,
    packets: packets() - before,
    loadTimeoutMs: LOAD_TIMEOUT_MS,
  }),
);
// Without stop(), and with work outstanding to the dead owner: the process's end puts the stores in order itself.
process.exit(0);
