import { SimulatedHost, type SimulatedObserver } from "../../../src/actors/hosts/simulated/host.ts";
import { SIMULATED_KV_BYTES_PER_TOKEN } from "../../../src/actors/hosts/simulated/model-truth.ts";
import { SeededRandom } from "../../../src/actors/hosts/simulated/random.ts";
import {
  ACTOR_FRONT_END,
  ACTOR_LOADER,
  ACTOR_LOOKUP,
  ACTOR_SAVER,
  type MessageKind,
} from "../../../src/actors/messages.ts";
import { mailboxCapacities } from "../../../src/actors/plan.ts";
import type { Log } from "../../../src/actors/step.ts";
import type { ChannelShape } from "../../../src/blocks/layout.ts";
import { RequestSlots } from "../../../src/blocks/request-slots.ts";
import { createTableBuffers, Tables } from "../../../src/blocks/tables.ts";
import { HASH_ALGORITHMS } from "../../../src/config/kv-cache-config.ts";
import { BlockMemory } from "../../../src/store/block-memory.ts";
import { createFaults } from "../../../src/store/fault-engine.ts";
import { planKeySpace, type WorkerKeySpace } from "../../../src/store/key-spaces.ts";
import { SimulatedChannel, type SimulatedKeySpace } from "../../../src/store/model-engine.ts";
import { ModelPool } from "../../../src/store/model-pool.ts";
import { addActors } from "./world-actors.ts";
import { expectedPool, poolPrefix } from "./expected-pool.ts";
import { FRONT_END_PLAN, FrontEndDriver } from "./front-end-driver.ts";
import { membershipOf } from "./membership.ts";
import { simulatedHashing } from "./simulated-hashing.ts";
import { Situations } from "./situations.ts";
import type { RunPlan } from "./workload.ts";

const SHAPE: ChannelShape = { batchSlots: 4, keysPerBatchMax: 8 };
const SILENT: Log = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};
/** Whose second copies a receiver must drop: restarts can cause them. */
const REPEATED_KINDS: ReadonlySet<MessageKind> = new Set<MessageKind>([
  "hashRequest",
  "hashed",
  "lookup",
  "lookupDone",
  "discardLookup",
  "load",
  "loadDone",
  "cancelLoad",
  "save",
  "saveDone",
  "abortRequest",
]);

/** Places where a test breaks something on purpose, to see that the simulator notices. */
export interface Sabotage {
  readonly pool?: (pool: ModelPool) => ModelPool;
}

export interface World {
  readonly plan: RunPlan;
  readonly tables: Tables;
  readonly host: SimulatedHost;
  readonly driver: FrontEndDriver;
  readonly slots: RequestSlots;
  readonly pool: ModelPool;
  readonly channels: readonly SimulatedChannel[];
  readonly situations: Situations;
  /** Key text to value of all that may be in the pool. */
  readonly expected: () => Map<string, Uint8Array>;
}

export function buildWorld(
  plan: RunPlan,
  sabotage: Sabotage = {},
  log?: (line: string) => void,
): World {
  const random = new SeededRandom(plan.seed ^ 0x5eed);
  const tables = createTables(plan);
  const situations = new Situations(
    plan,
    tables,
    {
      nowMs: () => host.clock.nowMs,
      frontEndRoom: () => host.mailbox(ACTOR_FRONT_END).room(),
    },
    log,
  );
  const host = createHost(plan, tables, random, situations);
  const memories = Array.from({ length: plan.shape.ranks }, () => createMemory(plan, random));
  const pool = (sabotage.pool ?? ((same) => same))(
    new ModelPool({
      bytesMax: plan.poolBytesMax,
      random: () => random.next(),
      evicts: plan.poolEvicts,
    }),
  );
  let values: Map<string, Uint8Array> | undefined;
  const expected = (): Map<string, Uint8Array> => (values ??= expectedPool(plan));
  if (plan.poolFilled > 0)
    for (const [key, value] of expected()) if (random.chance(plan.poolFilled)) pool.put(key, value);
  const { workers, keySpaces } = createKeySpaces(plan, tables, memories);
  const channel = (actor: number): SimulatedChannel =>
    new SimulatedChannel({
      shape: SHAPE,
      pool,
      keySpaces,
      schedule: (delayMs, run) => host.clock.schedule(delayMs, run),
      random: () => random.next(),
      wake: () => host.wake(actor),
      delayMsMax: 5,
      faults: createFaults(
        plan.faults,
        () => random.next(),
        () => host.clock.nowMs,
      ),
    });
  const lookups = channel(ACTOR_LOOKUP);
  const loads = channel(ACTOR_LOADER);
  const saves = channel(ACTOR_SAVER);
  const slots = new RequestSlots(tables);
  const driver = new FrontEndDriver(host, tables, slots, plan);
  addActors({ plan, tables, host, random, memories, workers, lookups, loads, saves });
  host.add(FRONT_END_PLAN(driver));
  const channels = [lookups, loads, saves];
  return { plan, tables, host, driver, slots, pool, channels, situations, expected };
}

function createTables(plan: RunPlan): Tables {
  const { blockSize, blockCount, hashBlockSize, requestSlots, jobSlots } = plan;
  const longest = Math.max(
    ...plan.requests.map((request) => request.prompt.length + request.maxTokens),
  );
  return new Tables(
    createTableBuffers({
      requestSlots,
      jobSlots,
      tokensPerRequestMax: longest,
      tokensMax: Math.max(longest, requestSlots * 40),
      hashBlockSize,
      hashLookaheadTokens: plan.hashLookaheadTokens,
      extraEncoding: HASH_ALGORITHMS[plan.hashAlgorithm].encoding,
      blockSize,
      groups: plan.shape.groups,
      blockCount,
      stepSequencesMax: plan.sequencesMax,
    }),
  );
}

function createHost(
  plan: RunPlan,
  tables: Tables,
  random: SeededRandom,
  situations: Situations,
): SimulatedHost {
  const { faults } = plan;
  const membership = membershipOf(plan.seed);
  const capacities = mailboxCapacities(
    plan.requestSlots,
    plan.jobSlots,
    plan.sequencesMax,
    plan.shape.ranks,
  );
  capacities[ACTOR_FRONT_END] = plan.frontEndCapacity;
  const events = new Map<string, number>();
  const deadly = (event: string): void => {
    const occurrence = (events.get(event) ?? 0) + 1;
    events.set(event, occurrence);
    for (const death of faults.deathsAtEvents)
      if (death.event === event && death.occurrence === occurrence)
        host.clock.schedule(0, () => host.armDeath(death.actor, death.places));
  };
  let deaths = 0;
  const observer: SimulatedObserver = {
    sent: (actor, message, repeated) => situations.sent(actor, message, repeated),
    stepped: (actor) => situations.stepped(actor),
    died: (actor, epoch, moment) => {
      situations.died(actor, epoch, moment);
      const places = faults.deathsOfSuccessors[deaths++] ?? 0;
      if (places > 0) host.armDeath(actor, places);
    },
  };
  const host: SimulatedHost = new SimulatedHost({
    tables,
    random,
    log: SILENT,
    hashBlocks: simulatedHashing(tables, plan),
    mailboxCapacities: capacities,
    wakeDelayMsMax: 1,
    restartDelayMsMax: 20,
    observer,
    readMembership: () => membership(host.clock.nowMs),
    trace: () => ({
      record: (event, slot, _generation, first, second) => {
        situations.record(event, slot, first, second);
        if (faults.deathsAtEvents.length > 0) deadly(event);
      },
    }),
    ...(faults.repeats === 0
      ? {}
      : { repeats: { kinds: REPEATED_KINDS, probability: faults.repeats, delayMsMax: 60 } }),
  });
  return host;
}

/** KV memory of one rank, full of garbage: a block that was never written or loaded must not look like a good one. */
function createMemory(plan: RunPlan, random: SeededRandom): Int32Array {
  const words = (plan.blockCount * plan.blockSize * SIMULATED_KV_BYTES_PER_TOKEN) / 4;
  return Int32Array.from({ length: words }, () => random.below(0x7fffffff));
}

/** One worker side a rank. Ranks with equal bytes share keys and puts; others have keys of their own. */
function createKeySpaces(
  plan: RunPlan,
  tables: Tables,
  memories: readonly Int32Array[],
): { workers: WorkerKeySpace[]; keySpaces: SimulatedKeySpace[] } {
  const { ranks, groups, ranksAreEqual } = plan.shape;
  const blockBytes = plan.blockSize * SIMULATED_KV_BYTES_PER_TOKEN;
  const segment = { offset: 0, strideBytes: blockBytes, bytes: blockBytes };
  const workers: WorkerKeySpace[] = [];
  const keySpaces: SimulatedKeySpace[] = [];
  for (const [rank, memory] of memories.entries()) {
    const every = Array.from({ length: ranksAreEqual ? 1 : ranks }, (_, other) => other);
    const keyPlan = planKeySpace({
      tensorParallelRank: rank,
      groups: Array.from({ length: groups }, (_, group) => ({
        putStep: ranksAreEqual ? ranks : 1,
        putPhase: ranksAreEqual ? rank : 0,
        own: [poolPrefix(plan, rank, group)],
        lookup: every.map((other) => poolPrefix(plan, other, group)),
      })),
      segments: Array.from({ length: groups }, () => [[{ regionId: rank, ...segment }]]),
    });
    workers.push({ ...keyPlan, keySpaceId: rank });
    const region = new Uint8Array(memory.buffer);
    keySpaces.push({
      prefixes: keyPlan.prefixes,
      hashBytes: HASH_ALGORITHMS[plan.hashAlgorithm].digestBytes,
      hashes: tables.hashes,
      groups: Array.from(
        { length: groups },
        () => new BlockMemory(region, [segment], plan.blockCount),
      ),
    });
  }
  return { workers, keySpaces };
}
