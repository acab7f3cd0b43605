import type { SimulatedHost } from "../../../src/actors/hosts/simulated/host.ts";
import {
  ACTOR_COUNT,
  ACTOR_LOADER,
  ACTOR_LOOKUP,
  ACTOR_NAMES,
  ACTOR_SAVER,
  ACTOR_SCHEDULER,
  ACTOR_SUPERVISOR,
} from "../../../src/actors/messages.ts";
import { SchedulerActor } from "../../../src/actors/scheduler/scheduler-actor.ts";
import {
  JOB_LIVE_WORD,
  REQUEST_LOADS_IN_FLIGHT,
  REQUEST_SAVES_IN_FLIGHT,
} from "../../../src/blocks/layout.ts";
import type { World } from "./world.ts";

/** Everything that must be back at zero when nothing is asked any more. */
export function leaks(world: World): string[] {
  const { tables, host, slots, channels, plan, driver } = world;
  const found: string[] = [];
  const expect = (what: string, value: number): void => {
    if (value !== 0) found.push(`leak: ${what} is ${value}`);
  };
  const usage = slots.usage();
  expect("request slots", usage.slots);
  expect("token pages", usage.tokenPages);
  expect("hash pages", usage.hashPages);
  expect("requests of the front end", driver.liveRequests());
  for (const channel of channels) expect("engine batches in flight", channel.inFlight());
  for (let slot = 0; slot < plan.requestSlots; slot++) {
    const at = tables.request(slot);
    expect(`loads in flight of slot ${slot}`, tables.requests[at + REQUEST_LOADS_IN_FLIGHT] ?? 0);
    expect(`saves in flight of slot ${slot}`, tables.requests[at + REQUEST_SAVES_IN_FLIGHT] ?? 0);
  }
  let jobs = 0;
  for (let job = 0; job < plan.jobSlots; job++)
    jobs += tables.jobs[tables.job(job) + JOB_LIVE_WORD] ?? 0;
  expect("live jobs", jobs);
  for (let actor = 0; actor < ACTOR_COUNT; actor++)
    if (actor !== ACTOR_SUPERVISOR)
      expect(`mailbox of ${ACTOR_NAMES[actor]}`, host.mailbox(actor).size());
  for (const actor of [ACTOR_LOOKUP, ACTOR_LOADER, ACTOR_SAVER])
    expect(`batch slots of ${ACTOR_NAMES[actor]} that are not free`, takenBatches(host, actor));
  const scheduler = host.actor(ACTOR_SCHEDULER);
  if (!(scheduler instanceof SchedulerActor)) return [...found, "the scheduler is dead"];
  const { counters } = scheduler;
  expect("live requests in the scheduler", counters.live);
  expect("pinned blocks", counters.pinnedBlocks);
  expect("quarantined blocks", counters.quarantinedBlocks);
  expect("blocks neither free nor cached", plan.blockCount - 1 - counters.freeBlocks);
  return found;
}

function takenBatches(host: SimulatedHost, actor: number): number {
  const engine = host.engine(actor);
  if (engine === undefined) return 1;
  const slots: number[] = [];
  for (let slot = engine.acquire(); slot >= 0; slot = engine.acquire()) slots.push(slot);
  for (const slot of slots) engine.release(slot);
  return engine.batchSlots - slots.length;
}

/** Where nothing is ever evicted or refused, a load that misses a key was started by a wrong answer of the lookup. */
export function falseHits({ plan, pool, situations }: World): string[] {
  const missed = situations.counts.get("load misses a key") ?? 0;
  if (missed === 0 || plan.faults.eviction > 0 || pool.evictions > 0) return [];
  if (plan.faults.checksumMismatch > 0) return [];
  return [`${missed} loads missed a key that their lookup had found`];
}

/** Values in the pool that are not what the tokens of their key demand, and keys that nobody may have formed. */
export function wrongValues({ pool, expected }: World): string[] {
  const found: string[] = [];
  for (const key of pool.keys()) {
    const value = pool.peek(key);
    const truth = expected().get(key);
    if (truth === undefined) found.push(`the pool has an unknown key ${key}`);
    else if (value === undefined || Buffer.compare(value, truth) !== 0)
      found.push(`the pool has wrong bytes under ${key}`);
  }
  return found;
}
