/**
 * Wrong inputs for every door, made from right ones by seeded changes. An input has failed when what it meets throws anything but a
 * MooncakeKvError, stalls longer than `STALL_MS` beyond what reading its bytes may take, or leaves a state that does not take the right
 * input any more. Memory is looked at over the whole run: it must not grow without bound.
 */
import { MooncakeKvError, showValue } from "../../src/errors.ts";
import { SeededRandom } from "./random.ts";

/** One door. */
export interface Target {
  readonly name: string;
  /** Opens what stays open over all inputs; the door's `close` gives it back. */
  open(): Promise<Door> | Door;
}
export interface Door {
  /** Makes an input and hands it over. Throws whatever the door throws; returns what was given, to be shown. */
  try(random: SeededRandom): Attempt | Promise<Attempt>;
  /** Throws unless the right input is taken as if nothing had been. */
  heal(): void | Promise<void>;
  close?(): void | Promise<void>;
}
export interface Attempt {
  readonly input: unknown;
  readonly bytes: number;
  /** Runs the input. What it throws or rejects with is judged. */
  run(): unknown;
}

export interface Failure {
  readonly target: string;
  readonly seed: number;
  readonly problem: string;
  readonly input: string;
}
export interface Report {
  readonly inputs: number;
  readonly failed: number;
  /** The first of them. */
  readonly failures: readonly Failure[];
  readonly byTarget: Readonly<Record<string, { readonly inputs: number; readonly failed: number }>>;
  readonly residentBytes: { readonly first: number; readonly last: number };
}

export interface AttackOptions {
  readonly targets: readonly Target[];
  readonly seconds: number;
  /** Inputs of a target are numbered from here: the same number is the same input. */
  readonly seed: number;
  /** For each target; absent: as many as the time allows. */
  readonly inputsMax?: number;
  readonly nowMs: () => number;
  readonly onFailure?: (failure: Failure) => void;
}

/** Generous to a machine under other work: what the product does wrong takes many times as long. */
const STALL_MS = 1_000;
const STALL_MS_PER_MEBIBYTE = 100;
/** Beyond what the first inputs took: what grows for each input reaches it within an hour. */
const GROWTH_BYTES_MAX = 768 * 1024 * 1024;
const HEAL_EVERY = 64;
const FAILURES_MAX = 50;
const SHOWN_CHARACTERS = 400;

export async function attack(options: AttackOptions): Promise<Report> {
  const { targets, nowMs } = options;
  const failures: Failure[] = [];
  const byTarget: Record<string, { inputs: number; failed: number }> = {};
  const endMs = nowMs() + options.seconds * 1000;
  let first = 0;
  for (const [index, target] of targets.entries()) {
    // Time that a target leaves over is the others'.
    const untilMs = nowMs() + (endMs - nowMs()) / (targets.length - index);
    const counts = { inputs: 0, failed: 0 };
    byTarget[target.name] = counts;
    const failed = (seed: number, problem: string, input: unknown): void => {
      counts.failed++;
      const failure = {
        target: target.name,
        seed,
        problem,
        input: showValue(input, SHOWN_CHARACTERS),
      };
      if (failures.length < FAILURES_MAX) failures.push(failure);
      options.onFailure?.(failure);
    };
    const door = await target.open();
    try {
      while (nowMs() < untilMs && counts.inputs < (options.inputsMax ?? Infinity)) {
        const seed = options.seed + counts.inputs++;
        await tryOne(door, seed, nowMs, failed);
        if (counts.inputs % HEAL_EVERY === 0) await heal(door, seed, failed);
        // Timers and the sockets of other doors get their turn.
        if (counts.inputs % HEAL_EVERY === 0) await new Promise(setImmediate);
        if (first === 0 && counts.inputs === HEAL_EVERY) first = process.memoryUsage.rss();
      }
      await heal(door, options.seed + counts.inputs, failed);
    } finally {
      await door.close?.();
    }
  }
  const last = process.memoryUsage.rss();
  const total = (what: "inputs" | "failed"): number =>
    Object.values(byTarget).reduce((sum, each) => sum + each[what], 0);
  const grown = first > 0 && last - first > GROWTH_BYTES_MAX;
  if (grown) {
    const problem = `memory grew from ${first} to ${last} bytes`;
    failures.push({ target: "all", seed: options.seed, problem, input: "" });
  }
  const failed = total("failed") + (grown ? 1 : 0);
  const residentBytes = { first, last };
  return { inputs: total("inputs"), failed, failures, byTarget, residentBytes };
}

async function tryOne(
  door: Door,
  seed: number,
  nowMs: () => number,
  failed: (seed: number, problem: string, input: unknown) => void,
): Promise<void> {
  const attempt = await door.try(new SeededRandom(seed));
  const allowedMs = STALL_MS + (attempt.bytes / 1024 ** 2) * STALL_MS_PER_MEBIBYTE;
  const beganMs = nowMs();
  const cpu = process.cpuUsage();
  try {
    await attempt.run();
  } catch (error) {
    const problem = unclear(error);
    if (problem !== null) failed(seed, problem, attempt.input);
  }
  // Beside other work the wall's clock says little: what counts is the time that was computed.
  const { user, system } = process.cpuUsage(cpu);
  const computedMs = Math.min(nowMs() - beganMs, (user + system) / 1000);
  if (computedMs > allowedMs)
    failed(seed, `stalls for ${Math.round(computedMs)} ms`, attempt.input);
}

async function heal(
  door: Door,
  seed: number,
  failed: (seed: number, problem: string, input: unknown) => void,
): Promise<void> {
  try {
    await door.heal();
  } catch (error) {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    failed(seed, `does not heal: ${text}`, null);
  }
}

/** null: one of our errors, that a person can act on. */
function unclear(error: unknown): string | null {
  if (!(error instanceof MooncakeKvError))
    return error instanceof Error ? (error.stack ?? error.message) : `throws ${String(error)}`;
  if (error.code === "BROKEN_INVARIANT") return error.stack ?? error.message;
  return /\w/.test(error.field) && /\w{3}/.test(error.remedy)
    ? null
    : `says too little: ${error.message}`;
}
