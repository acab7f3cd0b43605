import { SeededRandom } from "../../../src/actors/hosts/simulated/random.ts";
import {
  ACTOR_LOADER,
  ACTOR_LOOKUP,
  ACTOR_NAMES,
  ACTOR_SAVER,
  ACTOR_SCHEDULER,
} from "../../../src/actors/messages.ts";
import { falseHits, leaks, wrongValues } from "./checks.ts";
import { LOOKUP_OF_A_CLOSED_POOL } from "./situations.ts";
import { planRun, type RunPlan } from "./workload.ts";
import { buildWorld, type Sabotage, type World } from "./world.ts";

export interface RunResult {
  readonly plan: RunPlan;
  /** Empty: the run met every promise. */
  readonly errors: readonly string[];
  readonly requests: number;
  /** Of every message, event and step in order. */
  readonly digest: number;
  /** Situations that occurred, with their numbers. */
  readonly situations: ReadonlyMap<string, number>;
}

export interface SimulateOptions {
  readonly sabotage?: Sabotage;
  /** Gets a line for every message, event and death. */
  readonly log?: (line: string) => void;
}

const STEPS_MAX = 400_000;
/** What the actors get to give up what is in flight, at an orderly shutdown. */
const STOP_MS = 50;

/** Runs one seed to its end and says what went wrong. The same seed gives the same run. */
export function simulate(seed: number, options: SimulateOptions = {}): RunResult {
  const plan = planRun(seed, new SeededRandom(seed));
  const { log } = options;
  const world = buildWorld(
    plan,
    options.sabotage,
    log === undefined
      ? undefined
      : (line) => log(`${world.host.clock.nowMs.toFixed(3).padStart(10)} ${line}`),
  );
  const { driver, situations } = world;
  schedulePlan(world);
  const errors: string[] = [];
  try {
    errors.push(...runToEnd(world));
  } catch (error) {
    errors.push(
      `threw: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`,
    );
  }
  errors.unshift(...driver.errors);
  errors.push(...wrongValues(world), ...falseHits(world));
  const closed = situations.counts.get(LOOKUP_OF_A_CLOSED_POOL) ?? 0;
  if (closed > 0) errors.push(`${closed} lookups were sent to a pool that was not open`);
  if (driver.failed > 0) situations.count("request ends with an error");
  if (driver.repeated > 0) situations.count("front end is told twice");
  return {
    plan,
    errors,
    requests: driver.ended,
    digest: situations.digest,
    situations: situations.counts,
  };
}

function schedulePlan(world: World): void {
  const { plan, host, driver } = world;
  const { clock } = host;
  for (const request of plan.requests)
    clock.schedule(request.arrivalMs, () => driver.arrive(request));
  for (const { atMs, actor, places } of plan.faults.deaths)
    clock.schedule(atMs, () => host.armDeath(actor, places));
  for (const { atMs, actor, forMs } of plan.faults.freezes)
    clock.schedule(atMs, () => host.freeze(actor, forMs));
  for (const [ticket, atMs] of plan.dropsMs.entries())
    clock.schedule(atMs, () => host.send(ACTOR_SCHEDULER, { kind: "dropLocalCache", ticket }));
}

function runToEnd(world: World): string[] {
  const { plan, host, driver, situations } = world;
  const over = (): boolean => driver.ended === plan.requests.length && driver.liveRequests() === 0;
  const ended = host.run(() => over() || host.clock.nowMs >= plan.stopMs, STEPS_MAX);
  if (!ended) return [hang(world, "running")];
  if (!over()) situations.count("stop in the middle");
  // What is in flight for nobody (saves, discarded lookups) has to drain too, before the stop in one half of the runs.
  if (plan.seed % 2 === 0 && over()) host.run(() => false, STEPS_MAX);
  return stop(world);
}

/** Orderly shutdown in the runtime's order: the scheduler drains through the others, so it goes first and alone. */
function stop(world: World): string[] {
  const { host, driver } = world;
  driver.stop();
  host.endDeaths();
  const deadlineMs = Math.ceil(host.clock.nowMs + STOP_MS);
  host.send(ACTOR_SCHEDULER, { kind: "stop", deadlineMs });
  const idle = (actor: number): boolean =>
    host.mailbox(actor).size() === 0 && host.actor(actor)?.idle() === true;
  if (!host.run(() => idle(ACTOR_SCHEDULER) && driver.liveRequests() === 0, STEPS_MAX))
    return [hang(world, "stopping the scheduler")];
  const others = [ACTOR_LOADER, ACTOR_SAVER, ACTOR_LOOKUP];
  for (const actor of others) host.send(actor, { kind: "stop", deadlineMs });
  if (!host.run(() => others.every(idle), STEPS_MAX)) {
    const names = others.filter((actor) => !idle(actor)).map((actor) => ACTOR_NAMES[actor]);
    return [hang(world, `stopping ${names.join(", ")}`)];
  }
  host.run(() => false, STEPS_MAX);
  return leaks(world);
}

function hang({ host, driver }: World, what: string): string {
  const at = host.clock.nowMs.toFixed(1);
  return `hangs at ${at} ms ${what}: ${driver.liveRequests()} requests live (${driver.describe()})`;
}
