import type { Tables } from "../blocks/tables.ts";
import type { BlockPool } from "./hooks.ts";
import type { JobRows } from "./job-rows.ts";
import { Quarantine } from "./quarantine.ts";

/**
 * The blocks of jobs: held from the writing of a job's record until every rank has reported, because an engine may read or write
 * them until then. A job whose request has left (finished, preempted) is an orphan: its blocks are in quarantine as well.
 */
export class HeldBlocks {
  readonly quarantine: Quarantine;
  /** Of those, what loads hold that their engine does not give back. */
  readonly lost: Quarantine;
  readonly #pool: BlockPool;
  readonly #rows: JobRows;
  readonly #groups: number;
  readonly #orphan: Uint8Array;
  readonly #lost: Uint8Array;

  constructor(tables: Tables, pool: BlockPool, rows: JobRows) {
    const { blockCount, groups, jobSlots } = tables.dimensions;
    this.quarantine = new Quarantine(blockCount);
    this.lost = new Quarantine(blockCount);
    this.#pool = pool;
    this.#rows = rows;
    this.#groups = groups;
    this.#orphan = new Uint8Array(jobSlots);
    this.#lost = new Uint8Array(jobSlots);
  }

  /** Stays readable until the record is used again. */
  orphan(job: number): boolean {
    return this.#orphan[job] === 1;
  }

  /**
   * Copies the request's rows into the job's and pins their blocks, and those of its boundary puts; returns how many. Throws what
   * `pin` throws, and holds none then.
   */
  hold(job: number, slot: number): number {
    this.#orphan[job] = 0;
    this.#lost[job] = 0;
    let blocks = 0;
    for (let group = 0; group < this.#groups; group++)
      blocks += this.#pin(job, group, this.#rows.copy(job, slot, group));
    return blocks + this.#pin(job, this.#groups, this.#rows.readBoundaries(job));
  }

  /** Holds again what a dead scheduler side's job held. */
  adopt(job: number): void {
    this.#forRows(job, (ids, count) => this.#pool.pin(ids, count));
  }

  /** The request left while the job runs; returns how many blocks are in quarantine by that. Once for each job. */
  abandon(job: number): number {
    this.#orphan[job] = 1;
    return this.#forRows(job, (ids, count) => this.quarantine.add(ids, count));
  }

  /** The engine does not give the abandoned job's blocks back; whether it ever will is not known. */
  lose(job: number): void {
    if (this.#lost[job] === 1) return;
    this.#lost[job] = 1;
    this.#forRows(job, (ids, count) => this.lost.add(ids, count));
  }

  /** No engine touches them any more; returns how many were held. */
  release(job: number): number {
    const orphan = this.orphan(job);
    const lost = this.#lost[job] === 1;
    return this.#forRows(job, (ids, count) => {
      if (orphan) this.quarantine.remove(ids, count);
      if (lost) this.lost.remove(ids, count);
      this.#pool.unpin(ids, count);
    });
  }

  /** Calls `take` with the blocks of each row, null blocks left out; returns how many there are in all. */
  #forRows(job: number, take: (ids: Int32Array, count: number) => void): number {
    let blocks = 0;
    for (let group = 0; group < this.#groups; group++) {
      const count = this.#rows.read(job, group);
      if (count > 0) take(this.#rows.ids, count);
      blocks += count;
    }
    const count = this.#rows.readBoundaries(job);
    if (count > 0) take(this.#rows.ids, count);
    return blocks + count;
  }

  /** Pins what was read last. When the caller's allocator refuses it, the groups before `group` are given back. */
  #pin(job: number, group: number, count: number): number {
    if (count === 0) return 0;
    try {
      this.#pool.pin(this.#rows.ids, count);
    } catch (error) {
      for (let before = 0; before < group; before++) {
        const pinned = this.#rows.read(job, before);
        if (pinned > 0) this.#pool.unpin(this.#rows.ids, pinned);
      }
      throw error;
    }
    return count;
  }
}
