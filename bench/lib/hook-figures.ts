import { ACTOR_LOOKUP } from "../../src/actors/messages.ts";
import { createSchedulerMemory } from "../../src/actors/scheduler/core.ts";
import { lookupAttempt, REQUEST_LOOKUP_ASKED_WORD } from "../../src/blocks/layout.ts";
import { IN_FLIGHT } from "../../src/connector/hooks.ts";
import { SchedulerSide } from "../../src/connector/scheduler-side.ts";
import type { NativeBinding } from "../../src/native/binding.ts";
import { median, percentile, type Report } from "./report.ts";
import { type Asked, BenchTables, SETTINGS } from "./scheduler-world.ts";
import { hashPrompt, publishMiss } from "./stand-ins.ts";
import { uniquePrompt } from "./step-phases.ts";

const IN_FLIGHT_TOGETHER = 500;
const ROUNDS = 60;
const WARM_UP_ROUNDS = 8;
const PROMPT_TOKENS = 1000;
const BLOCK_SIZE = 16;

/** Nanoseconds of each request, in CPU time or in time, by what was done. */
interface Times {
  readonly admit: number[];
  readonly submit: number[];
  readonly poll: number[];
  readonly receive: number[];
}

/**
 * What one request pays on the scheduler's thread: its admission to the tables, the question to the pool (`matchedTokens`,
 * first call), the look at a published answer (second call), and the answer's message. 500 requests are in flight together.
 */
export function measureHooks(native: NativeBinding, report: Report): void {
  const shared = new BenchTables(native, {
    requestSlots: IN_FLIGHT_TOGETHER,
    jobSlots: 64,
    tokensPerRequestMax: 2 * PROMPT_TOKENS,
    tokensMax: IN_FLIGHT_TOGETHER * (PROMPT_TOKENS + 2 * BLOCK_SIZE),
    hashBlockSize: BLOCK_SIZE,
    hashLookaheadTokens: 0,
    extraEncoding: "pickle",
    blockSize: BLOCK_SIZE,
    groups: 1,
    blockCount: 1025,
    stepSequencesMax: 64,
  });
  const side = openSide(shared);
  const cpu = { admit: [], submit: [], poll: [], receive: [] } satisfies Times;
  const wall = { admit: [], submit: [], poll: [], receive: [] } satisfies Times;
  const ignored = { admit: [], submit: [], poll: [], receive: [] } satisfies Times;
  for (let round = 0; round < WARM_UP_ROUNDS + 2 * ROUNDS; round++) {
    globalThis.gc?.();
    // The thread's CPU time leaves out what other processes take, but reading it costs more than a hook: rounds take turns.
    const byCpu = round % 2 === 0;
    const clock = byCpu ? native.threadCpuNanoseconds : native.monotonicNanoseconds;
    const kept = byCpu ? cpu : wall;
    runRound(shared, side, clock, round < WARM_UP_ROUNDS ? ignored : kept);
  }
  print(report, cpu, wall, native);
}

function openSide(shared: BenchTables): SchedulerSide {
  const { tables, context } = shared;
  const memory = createSchedulerMemory(tables);
  return new SchedulerSide({
    tables,
    settings: SETTINGS,
    log: context.log,
    trace: context.trace,
    nowMs: () => context.nowMs(),
    send: (actor, message) => context.send(actor, message),
    blockPages: memory.pages,
    pool: memory.allocator,
    ranks: 1,
    flushWakes: () => undefined,
    readLookup: (slot) => context.readLookup(slot),
    hashBlocks: context.hashBlocks,
  });
}

function runRound(
  shared: BenchTables,
  side: SchedulerSide,
  clock: () => number,
  into: Times,
): void {
  const { tables, slots, context, mailboxes } = shared;
  const prompts = Array.from({ length: IN_FLIGHT_TOGETHER }, () => uniquePrompt(PROMPT_TOKENS));
  const asked: Asked[] = [];
  for (const tokens of prompts) {
    const start = clock();
    const added = slots.addRequest({ tokens, tokensMax: PROMPT_TOKENS + BLOCK_SIZE });
    into.admit.push(clock() - start);
    if (!added.ok) throw new Error(`the bench's tables are too small: ${added.remedy}`);
    asked.push(added);
  }
  for (const { slot, generation } of asked) {
    side.requestAdded(slot);
    const blocks = hashPrompt(tables, slot, context.hashBlocks);
    side.receive({ kind: "hashed", slot, generation, blocks });
  }
  const first = into.submit.length;
  for (const { slot } of asked) {
    const start = clock();
    const answer = side.matchedTokens(slot, 0);
    into.submit.push(clock() - start);
    if (answer !== IN_FLIGHT) throw new Error(`a new lookup answers ${answer}`);
  }
  const attempts = asked.map(({ slot }) => attemptOf(shared, slot));
  for (const [index, { slot }] of asked.entries()) publishMiss(tables, slot, attempts[index]!);
  for (const { slot } of asked) {
    const start = clock();
    const answer = side.matchedTokens(slot, 0);
    into.poll.push(clock() - start);
    if (answer !== 0) throw new Error(`a published miss answers ${answer}`);
  }
  for (const [index, { slot, generation }] of asked.entries()) {
    const start = clock();
    side.receive({ kind: "lookupDone", slot, generation, attempt: attempts[index]! });
    into.receive.push(clock() - start);
  }
  if (into.poll.length !== first + IN_FLIGHT_TOGETHER) throw new Error("submits and polls differ");
  for (const { slot } of asked) {
    side.requestFinished(slot);
    if (side.inFlight(slot) !== 0) throw new Error("a finished request is still in flight");
    slots.release(slot);
  }
  const questions = mailboxes[ACTOR_LOOKUP]!;
  for (let message = questions.pop(); message !== null;) message = questions.pop();
}

function attemptOf(shared: BenchTables, slot: number): number {
  const { tables } = shared;
  return lookupAttempt(tables.requests[tables.request(slot) + REQUEST_LOOKUP_ASKED_WORD]!);
}

/** Two readings of a clock with nothing between them: contained in every figure that it gives. */
function clockCost(clock: () => number): number {
  const costs: number[] = [];
  for (let count = 0; count < 20_000; count++) {
    const start = clock();
    costs.push(clock() - start);
  }
  return median(costs);
}

/** The ratios are by the clock on the wall: it costs less than what it measures, and leaves nothing out. */
function print(report: Report, cpu: Times, wall: Times, native: NativeBinding): void {
  const sums = wall.submit.map((submit, index) => submit + wall.poll[index]!);
  const cpuSums = cpu.submit.map((submit, index) => submit + cpu.poll[index]!);
  const show = (name: string, nanoseconds: number): void =>
    report.figure(name, nanoseconds / 1e3, "us");
  report.figure("requests, submit + poll", sums.length, "requests");
  report.ratio("submit-and-poll-p50-us", median(sums) / 1e3, "most", 2);
  report.ratio("submit-and-poll-p99-us", percentile(sums, 0.99) / 1e3, "most", 10);
  show("submit, p50", median(wall.submit));
  show("poll, p50", median(wall.poll));
  show("the answer's message (receive), p50", median(wall.receive));
  show("the clock itself, contained twice", clockCost(native.monotonicNanoseconds));
  show("submit + poll by thread CPU time, p50", median(cpuSums));
  show("submit + poll by thread CPU time, p99", percentile(cpuSums, 0.99));
  show("that clock itself, contained twice", clockCost(native.threadCpuNanoseconds));
  show("admit (addRequest with 1,000 tokens), p50", median(wall.admit));
  show("admit (addRequest with 1,000 tokens), p99", percentile(wall.admit, 0.99));
}
