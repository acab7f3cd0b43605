import { SimulatedHost } from "../../../src/actors/hosts/simulated/host.ts";
import { SIMULATED_KV_BYTES_PER_TOKEN, SimulatedModel } from "../../../src/actors/hosts/simulated/model.ts";
import { SeededRandom } from "../../../src/actors/hosts/simulated/random.ts";
import { LoaderActor } from "../../../src/actors/loader/loader-actor.ts";
import { LookupActor } from "../../../src/actors/lookup/lookup-actor.ts";
import { ACTOR_LOADER, ACTOR_LOOKUP, ACTOR_MODEL, ACTOR_SAVER, ACTOR_SCHEDULER } from "../../../src/actors/messages.ts";
import { SaverActor } from "../../../src/actors/saver/saver-actor.ts";
import { createScheduler } from "../../../src/actors/scheduler/create-scheduler.ts";
import type { SchedulerActor } from "../../../src/actors/scheduler/scheduler-actor.ts";
import type { Log } from "../../../src/actors/step.ts";
import { type ChannelShape, JOB_LIVE_WORD } from "../../../src/blocks/layout.ts";
import { RequestSlots } from "../../../src/blocks/request-slots.ts";
import { createTableBuffers, Tables } from "../../../src/blocks/tables.ts";
import type { ConnectorSettings } from "../../../src/connector/settings.ts";
import { BlockMemory } from "../../../src/store/block-memory.ts";
import { createFaults } from "../../../src/store/fault-engine.ts";
import { planKeySpace } from "../../../src/store/key-spaces.ts";
import { SimulatedChannel } from "../../../src/store/model-engine.ts";
import { ModelPool } from "../../../src/store/model-pool.ts";
import { FRONT_END_PLAN, FrontEndDriver } from "./front-end-driver.ts";
import { simulatedHashing } from "./simulated-hashing.ts";
import { planRun, type RunPlan } from "./workload.ts";

export interface RunResult {
  readonly plan: RunPlan;
  /** Empty: the run met every promise. */
  readonly errors: readonly string[];
  readonly requests: number;
  readonly poolTokens: number;
  readonly localTokens: number;
  readonly deaths: number;
  readonly preemptions: number;
}

const STEPS_MAX = 400_000;
const SHAPE: ChannelShape = { batchSlots: 4, keysPerBatchMax: 8 };
const SILENT: Log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

/** Runs one seed to its end and says what went wrong. The same seed gives the same run. */
export function simulate(seed: number, log: Log = SILENT): RunResult {
  const plan = planRun(seed, new SeededRandom(seed));
  const world = buildWorld(plan, log);
  const { host, driver } = world;
  for (const request of plan.requests) host.clock.schedule(request.arrivalMs, () => driver.arrive(request));
  for (const { atMs, actor, calls } of plan.faults.deaths) {
    host.clock.schedule(atMs, () => host.armDeath(actor, calls));
  }
  const errors: string[] = [];
  let ended = false;
  try {
    ended = host.run(() => driver.ended === plan.requests.length && driver.liveRequests() === 0, STEPS_MAX);
    // What is still in flight for nobody (saves, discarded lookups) has to drain too.
    if (ended) host.run(() => false, 50_000);
  } catch (error) {
    errors.push(`threw: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
  }
  errors.push(...driver.errors);
  if (!ended && errors.length === 0) {
    errors.push(`hangs at ${host.clock.nowMs.toFixed(1)} ms: ${driver.liveRequests()} requests live (${driver.describe()})`);
  }
  if (ended) errors.push(...leaks(world));
  return {
    plan,
    errors,
    requests: driver.ended,
    poolTokens: driver.poolTokens,
    localTokens: driver.localTokens,
    deaths: host.deaths,
    preemptions: 0,
  };
}

interface World {
  readonly plan: RunPlan;
  readonly tables: Tables;
  readonly host: SimulatedHost;
  readonly driver: FrontEndDriver;
  readonly slots: RequestSlots;
  readonly channels: readonly SimulatedChannel[];
}

function buildWorld(plan: RunPlan, log: Log): World {
  const { blockSize, blockCount, faults } = plan;
  const random = new SeededRandom(plan.seed ^ 0x5eed);
  const longest = Math.max(...plan.requests.map((request) => request.prompt.length + request.maxTokens));
  const tables = new Tables(
    createTableBuffers({
      requestSlots: plan.requestSlots,
      jobSlots: plan.jobSlots,
      tokensPerRequestMax: longest,
      tokensMax: Math.max(longest, plan.requestSlots * 40),
      hashBlockSize: blockSize,
      blockSize,
      groups: 1,
      blockCount,
      stepSequencesMax: plan.sequencesMax,
    }),
  );
  const host = new SimulatedHost({
    tables,
    random,
    log,
    hashBlocks: simulatedHashing(tables, blockSize),
    mailboxCapacity: 1024,
    wakeDelayMsMax: 1,
    restartDelayMsMax: 20,
  });
  const memory = new Int32Array((blockCount * blockSize * SIMULATED_KV_BYTES_PER_TOKEN) / 4);
  // Garbage in fresh memory: a block that was never written or loaded must not look like a good one.
  for (let word = 0; word < memory.length; word++) memory[word] = random.below(0x7fffffff);
  const blockBytes = blockSize * SIMULATED_KV_BYTES_PER_TOKEN;
  const segment = { offset: 0, strideBytes: blockBytes, bytes: blockBytes };
  const keyPlan = planKeySpace({
    tensorParallelRank: 0,
    groups: [{ putStep: 1, putPhase: 0, own: ["sim@tp_rank:0"], lookup: ["sim@tp_rank:0"] }],
    segments: [[{ regionId: 0, ...segment }]],
  });
  const pool = new ModelPool({ bytesMax: plan.poolBytesMax, random: () => random.next() });
  const keySpace = {
    prefixes: keyPlan.prefixes,
    hashBytes: 32,
    hashes: tables.hashes,
    groups: [new BlockMemory(new Uint8Array(memory.buffer), [segment], blockCount)],
  };
  const channel = (actor: number): SimulatedChannel =>
    new SimulatedChannel({
      shape: SHAPE,
      pool,
      keySpaces: [keySpace],
      schedule: (delayMs, run) => host.clock.schedule(delayMs, run),
      random: () => random.next(),
      wake: () => host.wake(actor),
      delayMsMax: 5,
      faults: createFaults(faults, () => random.next(), () => host.clock.nowMs),
    });
  const lookups = channel(ACTOR_LOOKUP);
  const loads = channel(ACTOR_LOADER);
  const saves = channel(ACTOR_SAVER);
  const slots = new RequestSlots(tables);
  const driver = new FrontEndDriver(host, tables, slots, plan.vocabulary);
  addActors({ plan, tables, host, random, memory, keySpace: { ...keyPlan, keySpaceId: 0 }, lookups, loads, saves });
  host.add(FRONT_END_PLAN(driver));
  return { plan, tables, host, driver, slots, channels: [lookups, loads, saves] };
}

interface ActorParts {
  readonly plan: RunPlan;
  readonly tables: Tables;
  readonly host: SimulatedHost;
  readonly random: SeededRandom;
  readonly memory: Int32Array;
  readonly keySpace: ReturnType<typeof planKeySpace> & { readonly keySpaceId: number };
  readonly lookups: SimulatedChannel;
  readonly loads: SimulatedChannel;
  readonly saves: SimulatedChannel;
}

function addActors(parts: ActorParts): void {
  const { plan, tables, host, random, memory, keySpace } = parts;
  const settings: ConnectorSettings = {
    role: "kv_both",
    loadAsync: plan.loadAsync,
    lookupAsync: plan.lookupAsync,
    enableLookup: true,
    canSave: true,
    saveDecodeCache: plan.saveDecodeCache,
    lookupTimeoutMs: 60,
    loadTimeoutMs: 80,
    saveTimeoutMs: 200,
    minLoadTokens: 0,
    loadFailurePolicy: "recompute",
  };
  const workers = [keySpace];
  host.add({
    actor: ACTOR_LOOKUP,
    attachEngine: (epoch) => parts.lookups.attach(epoch),
    create: () => new LookupActor({ tables, keySpace }),
  });
  host.add({
    actor: ACTOR_LOADER,
    attachEngine: (epoch) => parts.loads.attach(epoch),
    create: () => new LoaderActor({ tables, workers }),
  });
  host.add({
    actor: ACTOR_SAVER,
    attachEngine: (epoch) => parts.saves.attach(epoch),
    create: () => new SaverActor({ tables, workers }),
  });
  host.add({
    actor: ACTOR_MODEL,
    create: () =>
      new SimulatedModel({
        memory,
        blockSize: plan.blockSize,
        vocabulary: plan.vocabulary,
        random,
        schedule: (delayMs, run) => host.clock.schedule(delayMs, run),
        wake: () => host.wake(ACTOR_MODEL),
        stepMsMax: 3,
        failureProbability: plan.faults.modelFailure,
        isCurrent: (model) => host.actor(ACTOR_MODEL) === model,
      }),
  });
  host.add({
    actor: ACTOR_SCHEDULER,
    create: (_epoch, context) =>
      createScheduler(
        {
          tables,
          settings,
          ranks: 1,
          pool: true,
          endTokenIds: [],
          tokensPerStepMax: plan.tokensPerStepMax,
          sequencesMax: plan.sequencesMax,
        },
        context,
      ),
  });
}

/** Everything that must be back at zero when nothing is asked any more. */
function leaks({ tables, host, slots, channels, plan }: World): string[] {
  const found: string[] = [];
  const expect = (what: string, value: number): void => {
    if (value !== 0) found.push(`leak: ${what} is ${value}`);
  };
  const usage = slots.usage();
  expect("request slots", usage.slots);
  expect("token pages", usage.tokenPages);
  expect("hash pages", usage.hashPages);
  for (const channel of channels) expect("engine batches in flight", channel.inFlight());
  let jobs = 0;
  for (let job = 0; job < plan.jobSlots; job++) jobs += tables.jobs[tables.job(job) + JOB_LIVE_WORD] ?? 0;
  expect("live jobs", jobs);
  const scheduler = host.actor(ACTOR_SCHEDULER) as SchedulerActor | undefined;
  if (scheduler === undefined) return [...found, "the scheduler is dead"];
  const { counters } = scheduler;
  expect("live requests in the scheduler", counters.live);
  expect("pinned blocks", counters.pinnedBlocks);
  expect("quarantined blocks", counters.quarantinedBlocks);
  expect("blocks neither free nor cached", plan.blockCount - 1 - counters.freeBlocks);
  return found;
}
