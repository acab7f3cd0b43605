// A serving loop of its own in a process of its own: one command a line on standard input, one answer a line on standard output.
// Tokens and KV bytes follow from a command's seed, so that a loop of another process or host can tell right bytes from wrong.
import { createInterface } from "node:readline";
import { attachRuntime } from "../../../dist/actors/runtime/attach.js";
import { CounterReader, familyOffset } from "../../../dist/trace/counters.js";
import {
  COUNTER_FAMILIES,
  GAUGE_FAMILIES,
  seriesCount,
  seriesLabels,
} from "../../../dist/trace/families.js";

const BLOCK = 16;
const STEP_MS = 2;
const { extra, blockCount, layers, modelName } = JSON.parse(process.argv[2] ?? "{}");
const pins = new Map();
const count = (ids, length, by) => {
  for (const id of ids.subarray(0, length)) pins.set(id, (pins.get(id) ?? 0) + by);
};
const { attached, runtime } = await attachRuntime({
  kvCache: {
    modelName,
    dtype: "float16",
    blockSize: BLOCK,
    blockCount,
    groups: [{ kind: "full", layers }],
    // 128 KiB a layer and block.
    heads: { kvHeads: 16, headSize: 128 },
  },
  kvTransferConfig: {
    kv_connector: "MooncakeStoreConnector",
    kv_role: "kv_both",
    kv_connector_extra_config: {
      engine: "mooncake",
      lookup_async: true,
      lookup_timeout_ms: 30_000,
      ...extra,
    },
  },
  blockPool: {
    pin: (ids, length) => count(ids, length, 1),
    unpin: (ids, length) => count(ids, length, -1),
  },
  logLevel: "info",
});
const { scheduler, worker } = attached.connector;
const memory = new Int32Array(attached.kvMemory);
const blockWords = memory.length / blockCount;

const promptOf = (seed, blocks) =>
  Array.from({ length: blocks * BLOCK + 1 }, (_, index) => seed * 100_000 + index);
const wordOf = (seed, chunk, at) =>
  Math.imul(at + 1, 0x9e3779b1) ^ Math.imul(seed, 0x85ebca6b) ^ chunk;
const wordsOf = (block) => memory.subarray(block * blockWords, (block + 1) * blockWords);
function fill(block, seed, chunk) {
  const words = wordsOf(block);
  for (let at = 0; at < blockWords; at++) words[at] = wordOf(seed, chunk, at);
}
function holds(block, seed, chunk) {
  return wordsOf(block).every((word, at) => word === wordOf(seed, chunk, at));
}

const pinned = () => [...pins.values()].filter((held) => held > 0).length;
let cursor = 0;
/** Blocks in turn; those that a job holds are left out, and block 0 is vLLM's null block. */
function takeBlocks(wanted) {
  const blocks = [];
  for (let looked = 0; blocks.length < wanted; looked++) {
    if (looked > blockCount) throw new Error("no free blocks");
    cursor = (cursor % (blockCount - 1)) + 1;
    if ((pins.get(cursor) ?? 0) === 0) blocks.push(cursor);
  }
  return blocks;
}
async function step(scheduled = [], runModel = () => {}, preempted = []) {
  const metadata = scheduler.buildConnectorMeta({ scheduled, preempted });
  worker.startLoadKv(metadata);
  runModel();
  worker.waitForSave(metadata);
  const done = worker.getFinished();
  scheduler.updateConnectorOutput(done);
  await new Promise((resolve) => setTimeout(resolve, STEP_MS));
  return done;
}
async function match(id) {
  for (;;) {
    const [found] = scheduler.getNumNewMatchedTokens(id, 0);
    if (found !== null) return found;
    await step();
  }
}

const say = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);
let requests = 0;
/**
 * A whole request: looked up, loaded what there is (unless `reuse` is false), the rest computed and saved, ended. Tells what was
 * found and kept, and of how many kept blocks the bytes are not those of the seed.
 */
async function request({ seed, blocks: chunks, reuse = true }) {
  const id = `request-${requests++}`;
  const prompt = promptOf(seed, chunks);
  scheduler.addRequest(id, prompt);
  const found = await match(id);
  let blocks = takeBlocks(chunks + 1);
  const given = reuse ? found : 0;
  // Bytes of before would look like bytes that came.
  for (const block of blocks) wordsOf(block).fill(0);
  scheduler.updateStateAfterAlloc(id, [blocks], given);
  let kept = given;
  for (let loading = given > 0, told = false; loading; told = true) {
    if (!told) say({ event: "loading" });
    const { finishedRecving, failedLoads, abandonedRecving } = await step();
    kept = failedLoads.find((each) => each.id === id)?.keptTokens ?? kept;
    if (abandonedRecving.includes(id)) {
      // The engine may still write into these: the request is computed in others.
      await step([], () => {}, [id]);
      blocks = takeBlocks(chunks + 1);
      scheduler.updateStateAfterAlloc(id, [blocks], 0);
      kept = 0;
      break;
    }
    loading = !finishedRecving.includes(id);
  }
  const keptBlocks = kept / BLOCK;
  const differing = blocks
    .slice(0, keptBlocks)
    .filter((block, at) => !holds(block, seed, at)).length;
  const outcome = scheduler.outcome(id);
  const scheduled = {
    id,
    numComputedTokens: kept,
    numScheduledTokens: prompt.length - kept,
    newBlockIds: null,
  };
  await step([scheduled], () => {
    for (let at = keptBlocks; at < blocks.length; at++) fill(blocks[at], seed, at);
  });
  scheduler.requestFinished(id, [blocks]);
  while (!attached.connector.idle() || pinned() > 0) await step();
  return { found, kept, differing, outcome };
}

/** Counters and gauges that are not zero, by their exposed names and labels. */
function figures(families) {
  const reader = new CounterReader(runtime.plan.counters);
  const found = {};
  for (const family of Object.values(families)) {
    for (let series = 0; series < seriesCount(family); series++) {
      const value = reader.sum(familyOffset(family) + series);
      const labels = Object.values(seriesLabels(family, series)).join(",");
      if (value !== 0) found[labels === "" ? family.name : `${family.name}{${labels}}`] = value;
    }
  }
  return found;
}

async function answerTo(command) {
  if (command.do === "request") return await request(command);
  if (command.do === "reset") return await scheduler.resetStore({ force: command.force });
  if (command.do === "figures")
    return { gauges: figures(GAUGE_FAMILIES), counters: figures(COUNTER_FAMILIES) };
  if (command.do === "find") {
    const id = `request-${requests++}`;
    scheduler.addRequest(id, promptOf(command.seed, command.blocks));
    const found = await match(id);
    scheduler.requestFinished(id);
    await step();
    return found;
  }
  throw new Error(`no such command: ${JSON.stringify(command)}`);
}

say({ ready: true });
for await (const line of createInterface({ input: process.stdin }))
  say({ answer: await answerTo(JSON.parse(line)) });
process.exit((await attached.stop()) === 0 ? 0 : 1);
