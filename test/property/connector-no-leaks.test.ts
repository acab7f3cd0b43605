/**
 * Goal: whatever order requests, ends, preemptions, answers, failures and deadlines come in, a block that a job names stays
 * pinned until the job is reported, no slot is let go before its last message, and at the end nothing is left. Method: random
 * walks over the hooks on small tables (full job table, quarantine and timeouts happen), with a model of who holds what.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { NONE, REQUEST_GENERATION } from "../../src/blocks/layout.ts";
import { ticketOf } from "../unit/connector-steps.ts";
import { OUTCOME_CANCELLED, OUTCOME_ENGINE_ERROR, OUTCOME_HIT } from "../../src/actors/messages.ts";
import { ConnectorBench } from "../unit/connector-bench.ts";

const SLOTS = 4;
const PROMPT = 80;
/** Each slot has blocks of its own: 5 for the prompt, 2 for the answer; block 0 is the null block, which nobody pins. */
const row = (slot: number, blocks: number): number[] =>
  Array.from({ length: blocks }, (_, index) => 1 + slot * 7 + index);

type Life = "free" | "waiting" | "loading" | "running" | "draining";

class Walk {
  readonly bench = new ConnectorBench({
    dimensions: { requestSlots: SLOTS, jobSlots: 2, blockCount: 32 },
    settings: { loadTimeoutMs: 1_500, loadRetriesMax: 1 },
  });
  readonly life: Life[] = Array.from({ length: SLOTS }, () => "free");
  readonly computed = new Int32Array(SLOTS);
  /** Jobs that loader and saver have and did not report: their blocks. */
  readonly jobs = new Map<number, { readonly load: boolean; readonly blocks: readonly number[] }>();
  readonly scheduled: number[] = [];
  loads = 0;
  saves = 0;

  act(action: number, slot: number, choice: number): void {
    // What moves a request on comes more often than what ends or upsets it.
    const forward = [this.add, this.ask, this.answer, this.schedule, this.close];
    const upsets = [this.report, this.report, this.finish, this.preempt, this.tick];
    const actions = forward.concat(forward, forward, upsets);
    actions[action % actions.length]?.call(this, slot, choice);
    this.check();
  }

  add(slot: number): void {
    if (this.life[slot] !== "free") return;
    this.bench.addRequest(PROMPT, { slot, hash: false });
    this.life[slot] = "waiting";
    this.computed[slot] = 0;
  }

  ask(slot: number, choice: number): void {
    if (this.life[slot] !== "waiting") return;
    const tokens = this.bench.hooks.matchedTokens(slot, 0);
    if (tokens === -1) return;
    const external = tokens > 0 && choice > 0 ? tokens : 0;
    this.bench.setRow(slot, row(slot, PROMPT / 16));
    this.bench.hooks.blocksAllocated(slot, external);
    this.life[slot] = external > 0 ? "loading" : "running";
  }

  answer(place: number, choice: number): void {
    this.bench.take("discardLookup");
    for (const { slot, generation } of this.bench.take("hashRequest"))
      this.bench.sides.receive({ kind: "hashed", slot, generation, blocks: PROMPT / 16 });
    for (const { slot, generation, attempt } of this.bench.take("lookup")) {
      if (choice === 0 && place === 0) this.bench.publish(slot, 4, 0, attempt);
      else if (choice === 0) this.bench.publish(slot, 3, 0, attempt);
      else this.bench.publish(slot, 2, choice * 16, attempt);
      this.bench.sides.receive({ kind: "lookupDone", slot, generation, attempt });
    }
  }

  schedule(slot: number, choice: number): void {
    if (this.life[slot] !== "running" || this.scheduled.includes(slot)) return;
    const tokens = Math.min(PROMPT - this.computed[slot]!, 16 * (choice + 1));
    if (tokens <= 0) return;
    this.bench.hooks.scheduled(slot, this.computed[slot]!, tokens);
    this.scheduled.push(slot);
    this.computed[slot] = this.computed[slot]! + tokens;
  }

  finish(slot: number): void {
    if (this.life[slot] === "free" || this.life[slot] === "draining") return;
    this.bench.hooks.requestFinished(slot);
    this.bench.setRow(slot, []);
    this.life[slot] = "draining";
  }

  preempt(slot: number): void {
    if (this.life[slot] !== "running" && this.life[slot] !== "loading") return;
    this.bench.hooks.preempted(slot);
    this.bench.setRow(slot, []);
    this.life[slot] = "waiting";
    this.computed[slot] = 0;
  }

  close(): void {
    const metadata = this.bench.hooks.buildMetadata();
    this.bench.sides.startLoads(metadata);
    this.bench.sides.startSaves(metadata);
    for (const job of metadata.loads.subarray(0, metadata.loadCount))
      this.jobs.set(job, { load: true, blocks: this.bench.row(job) });
    for (const job of metadata.saves.subarray(0, metadata.saveCount))
      this.jobs.set(job, { load: false, blocks: this.bench.row(job) });
    this.loads += metadata.loadCount;
    this.saves += metadata.saveCount;
    this.scheduled.length = 0;
    this.bench.take("load");
    this.bench.take("save");
  }

  /** One job ends, well or badly; once in a while twice. */
  report(_slot: number, choice: number): void {
    const [job, held] = [...this.jobs][choice % Math.max(1, this.jobs.size)] ?? [NONE, undefined];
    if (held === undefined) return;
    const counts = { kibibytes: 0, microseconds: 0 };
    const good = choice !== 2;
    for (let times = choice === 3 ? 2 : 1; times > 0; times--) {
      if (held.load) {
        const outcome = good ? OUTCOME_HIT : OUTCOME_CANCELLED;
        const places = { memoryBlocks: 0, diskBlocks: 0 };
        this.bench.sides.receive({
          kind: "loadDone",
          job,
          ticket: ticketOf(this.bench, job),
          worker: 0,
          outcome,
          badChunk: good ? NONE : 0,
          ...places,
          ...counts,
        });
      } else {
        const outcome = good ? OUTCOME_HIT : OUTCOME_ENGINE_ERROR;
        const places = { writtenBlocks: 0, presentBlocks: 0, failedBlocks: 0 };
        this.bench.sides.receive({
          kind: "saveDone",
          job,
          ticket: ticketOf(this.bench, job),
          worker: 0,
          outcome,
          ...places,
          ...counts,
        });
      }
    }
    this.jobs.delete(job);
    const output = this.bench.sides.collect();
    this.bench.hooks.applyOutput(output);
    for (let index = 0; index < output.doneLoadCount; index++) {
      const slot = this.bench.hooks.jobSlot(output.doneLoads[index]!);
      if (slot === NONE) continue;
      expect(this.life[slot]).toBe("loading");
      this.life[slot] = "running";
      if (output.badChunks[index] !== NONE) this.computed[slot] = output.badChunks[index]! * 16;
    }
  }

  tick(_slot: number, choice: number): void {
    this.bench.nowMs += choice * 300;
    this.bench.hooks.expire((slot, loadLost) => {
      if (loadLost) this.preempt(slot);
    });
    this.bench.take("cancelLoad");
  }

  check(): void {
    const pinned = new Set(this.bench.pinnedBlocks());
    for (const { blocks } of this.jobs.values())
      for (const block of blocks) expect(pinned.has(block)).toBe(true);
    for (let slot = 0; slot < SLOTS; slot++)
      if (this.life[slot] === "draining" && this.bench.hooks.inFlight(slot) === 0)
        this.life[slot] = "free";
  }

  /** Ends everything that still lives, answers everything that is still open. */
  end(): void {
    for (let slot = 0; slot < SLOTS; slot++) this.finish(slot);
    this.close();
    this.answer(0, 1);
    while (this.jobs.size > 0) this.report(0, 0);
    this.check();
    expect(this.life).toEqual(["free", "free", "free", "free"]);
    const { hooks, blockPages } = this.bench;
    expect([hooks.liveJobs(), hooks.waitingLookups(), hooks.quarantinedBlocks()]).toEqual([
      0, 0, 0,
    ]);
    expect(this.bench.pinnedBlocks()).toEqual([]);
    expect(hooks.nextDeadlineMs()).toBe(Infinity);
    for (let slot = 0; slot < SLOTS; slot++)
      if (this.bench.request(slot, REQUEST_GENERATION) > 0) this.bench.closeRow(slot);
    expect(blockPages.usedPages()).toBe(0);
  }
}

test("random walks leave nothing behind", () => {
  const seen = {
    loads: 0,
    saves: 0,
    quarantined: 0,
    failedLoads: 0,
    lookupTimeouts: 0,
    loadTimeouts: 0,
    postponedSaves: 0,
    loadBackPressure: 0,
    staleReports: 0,
  };
  const step = fc.tuple(fc.nat(19), fc.nat(SLOTS - 1), fc.nat(4));
  fc.assert(
    fc.property(fc.array(step, { minLength: 200, maxLength: 300, size: "max" }), (steps) => {
      const walk = new Walk();
      for (const [action, slot, choice] of steps) {
        walk.act(action, slot, choice);
        seen.quarantined = Math.max(seen.quarantined, walk.bench.hooks.quarantinedBlocks());
      }
      walk.end();
      const { counters } = walk.bench.hooks;
      seen.loads += walk.loads;
      seen.saves += walk.saves;
      seen.failedLoads += counters.failedLoads;
      seen.lookupTimeouts += counters.lookupTimeouts;
      seen.loadTimeouts += counters.loadTimeouts;
      seen.postponedSaves += counters.postponedSaves;
      seen.loadBackPressure += counters.loadBackPressure;
      seen.staleReports += walk.bench.sides.workers[0]!.staleMessages;
    }),
    { numRuns: 200, seed: 7 },
  );
  // Walks that never get anywhere would prove nothing.
  for (const [what, count] of Object.entries(seen)) expect(count, what).toBeGreaterThan(0);
});
