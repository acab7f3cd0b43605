import { OUTCOME_CANCELLED, OUTCOME_NONE } from "../actors/messages.ts";
import { NONE, REQUEST_BLOCK_PAGE, REQUEST_GROUP_BLOCKS } from "../blocks/layout.ts";
import { Deadlines } from "../blocks/deadlines.ts";
import { ChainCursor } from "../blocks/page-arena.ts";
import type { Jobs } from "./jobs.ts";
import type { PoolGate } from "./pool-gate.ts";
import type { ConnectorCounters, SchedulerPorts } from "./ports.ts";

/** How often it is looked whether the pool is open again: nobody tells. */
const GATE_RETRY_MS = 20;

/**
 * Whether a pool that is not open will be soon: a reset pauses it. One that is closed, or whose engine is down, may stay so, and
 * ended requests must not take slots and blocks from others meanwhile.
 */
function waitsFor(refusal: number): boolean {
  return refusal === OUTCOME_NONE || refusal === OUTCOME_CANCELLED;
}

/** Makes one owed save: its job, or NONE for "not now". */
export type MakeOwed = (slot: number) => number;

/**
 * Saves that were still due when their request ended: they had found no page, no record, no hashes, or the pool paused by a reset. The
 * request's row stays as it is, its blocks pinned and in quarantine like those of a job without a request, until the save can be
 * made; at most save_timeout_ms, and not past a reset of the pool, which would have removed what they bring. One a request slot.
 */
export class OwedSaves {
  readonly #ports: SchedulerPorts;
  readonly #jobs: Jobs;
  readonly #gate: PoolGate;
  readonly #counters: ConnectorCounters;
  readonly #deadlines: Deadlines;
  /** In the order in which their requests ended. */
  readonly #slots: number[] = [];
  /** By slot: resets that had begun when the request ended. */
  readonly #pauses: Int32Array;
  readonly #cursor: ChainCursor;
  #ids: Int32Array;
  #gateRetryMs = Infinity;

  constructor(
    ports: SchedulerPorts,
    parts: { jobs: Jobs; gate: PoolGate; counters: ConnectorCounters },
  ) {
    const { requestSlots } = ports.tables.dimensions;
    this.#ports = ports;
    this.#jobs = parts.jobs;
    this.#gate = parts.gate;
    this.#counters = parts.counters;
    this.#deadlines = new Deadlines(requestSlots);
    this.#pauses = new Int32Array(requestSlots);
    this.#cursor = new ChainCursor(ports.tables.blocks);
    this.#ids = new Int32Array(64);
  }

  get size(): number {
    return this.#slots.length;
  }
  has(slot: number): boolean {
    return this.#deadlines.has(slot);
  }
  nextDeadlineMs(): number {
    return this.size === 0 ? Infinity : Math.min(this.#deadlines.nextMs(), this.#gateRetryMs);
  }

  /** True: the request's row is kept here from now on, and its pages are given back when the save is made or given up. */
  keep(slot: number): boolean {
    const refusal = this.#gate.refusal();
    if (!waitsFor(refusal) || !this.#pin(slot)) {
      this.#counters.lostSaves++;
      return false;
    }
    const { nowMs, settings } = this.#ports;
    this.#slots.push(slot);
    this.#pauses[slot] = this.#gate.pauses;
    this.#deadlines.set(slot, nowMs() + settings.saveTimeoutMs);
    this.#gateRetryMs = refusal === OUTCOME_NONE ? Infinity : nowMs() + GATE_RETRY_MS;
    return true;
  }

  /** Makes what can be made by now and gives up what is too late; `ended` is told of each request that keeps nothing any more. */
  settle(make: MakeOwed, ended: (slot: number) => void): void {
    if (this.size === 0) return;
    const now = this.#ports.nowMs();
    const refusal = this.#gate.refusal();
    this.#gateRetryMs = refusal === OUTCOME_NONE ? Infinity : now + GATE_RETRY_MS;
    for (const slot of this.#slots.slice()) {
      const late = this.#deadlines.timeMs(slot) <= now;
      const reset = this.#pauses[slot] !== this.#gate.pauses;
      if (late || reset || !waitsFor(refusal)) this.#lose(slot);
      else if (refusal === OUTCOME_NONE) {
        if (make(slot) === NONE) continue;
        this.#counters.savesAfterEnd++;
        this.#release(slot);
      } else continue;
      ended(slot);
    }
  }

  /**
   * Somebody needs blocks. True: the save that waits longest was given up for them. Saves that wait for room are not: jobs hold it,
   * and end.
   */
  giveWay(ended: (slot: number) => void): boolean {
    const slot = this.#slots[0];
    if (slot === undefined || this.#gate.refusal() === OUTCOME_NONE) return false;
    this.#lose(slot);
    ended(slot);
    return true;
  }

  /** Nobody saves any more. */
  loseAll(): void {
    for (const slot of this.#slots.slice()) this.#lose(slot);
  }

  #lose(slot: number): void {
    this.#counters.lostSaves++;
    this.#ports.log.debug({ slot }, "the save that an ended request owed was given up");
    this.#release(slot);
  }

  #release(slot: number): void {
    const { tables, pool, blockPages } = this.#ports;
    const at = tables.request(slot);
    this.#slots.splice(this.#slots.indexOf(slot), 1);
    this.#deadlines.delete(slot);
    for (let group = 0; group < tables.dimensions.groups; group++) {
      const count = this.#read(slot, group);
      this.#jobs.quarantine.remove(this.#ids, count);
      pool.unpin(this.#ids, count);
    }
    for (let group = 0; group < tables.dimensions.groups; group++) {
      blockPages.free(tables.requests[at + REQUEST_BLOCK_PAGE + group]!);
      tables.requests[at + REQUEST_BLOCK_PAGE + group] = NONE;
      tables.requests[at + REQUEST_GROUP_BLOCKS + group] = 0;
    }
  }

  /** False, and nothing held, when the caller's allocator refuses. */
  #pin(slot: number): boolean {
    const { tables, pool, log } = this.#ports;
    const { groups } = tables.dimensions;
    for (let group = 0; group < groups; group++) {
      const count = this.#read(slot, group);
      try {
        pool.pin(this.#ids, count);
      } catch (error) {
        log.warn({ slot, error: String(error) }, "blocks of an ended request cannot be held");
        for (let before = 0; before < group; before++)
          pool.unpin(this.#ids, this.#read(slot, before));
        return false;
      }
    }
    for (let group = 0; group < groups; group++) {
      const count = this.#read(slot, group);
      this.#jobs.quarantine.add(this.#ids, count);
    }
    return true;
  }

  /** Reads the request's row of the group into `#ids`, null blocks left out; returns how many blocks there are. */
  #read(slot: number, group: number): number {
    const { tables } = this.#ports;
    const entries = tables.rowBlocks(slot, group);
    if (entries === 0) return 0;
    if (entries > this.#ids.length) this.#ids = new Int32Array(2 * entries);
    const page = tables.requests[tables.request(slot) + REQUEST_BLOCK_PAGE + group]!;
    const cursor = this.#cursor.seek(page, 0);
    let count = 0;
    for (let index = 0; index < entries; index++) {
      const block = tables.blocks.words[cursor.advance()]!;
      if (block !== 0) this.#ids[count++] = block;
    }
    return count;
  }
}
