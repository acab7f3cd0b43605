import { OUTCOME_HIT } from "../../actors/messages.ts";
import { JOB_BLOCK_PAGE, JOB_CHUNK_FIRST, JOB_GROUP_BLOCKS, NONE } from "../../blocks/layout.ts";
import type { ConnectorMetadata, ConnectorOutput } from "../hooks.ts";
import { checkWhole } from "./arguments.ts";
import { firstBadChunk } from "../loads.ts";
import type { Attached } from "./attached.ts";

export interface FailedLoad {
  readonly id: string;
  /** Tokens from the request's start whose KV is good; everything behind is to be computed. */
  readonly keptTokens: number;
}

/** get_finished and get_block_ids_with_load_errors in one. Valid until the next call. */
export interface FinishedTransfers {
  /** Always empty: saves pin their blocks per store job and delay nobody. */
  readonly finishedSending: readonly string[];
  /** Requests whose load is over, failed ones too. */
  readonly finishedRecving: readonly string[];
  /** With one KV-cache group: every block that did not arrive, from the first bad one on. */
  readonly invalidBlockIds: readonly number[];
  /** With several groups, where block ids are ambiguous: the requests instead. */
  readonly failedRecving: readonly string[];
  readonly failedLoads: readonly FailedLoad[];
  /**
   * Loads that an engine does not acknowledge long after their deadline: it may still write into their blocks. Preempt these
   * requests (the blocks stay pinned) and compute them.
   */
  readonly abandonedRecving: readonly string[];
  /** For `scheduler.updateConnectorOutput`. */
  readonly output: ConnectorOutput;
}

/** Most that a timer counts. */
const TIMEOUT_MS_MAX = 0x7fffffff;

/** KVConnectorBase_V1's worker side, all ranks of this process together. */
export class WorkerFace {
  readonly #attached: Attached;

  constructor(attached: Attached) {
    this.#attached = attached;
  }

  /** start_load_kv: before the model run when `metadata.hasSyncLoads`, then followed by `waitForLoads`. */
  startLoadKv(metadata: ConnectorMetadata): void {
    const { sides } = this.#attached.enter();
    sides.startLoads(this.#attached.checkMetadata(metadata));
    this.#attached.flush();
  }

  /** wait_for_save: call when the step's KV is in memory. Starts the saves; does not wait for them. */
  waitForSave(metadata: ConnectorMetadata): void {
    const { sides } = this.#attached.enter();
    sides.startSaves(this.#attached.checkMetadata(metadata));
    this.#attached.flush();
  }

  /**
   * For load_async false: blocks until every started load is over, at most `timeoutMs`; false when some are not. Needs no
   * event loop. Loads past their own deadline are cancelled on the way.
   */
  waitForLoads(timeoutMs: number): boolean {
    const { sides, nowMs } = this.#attached.enter();
    checkWhole(
      "timeoutMs",
      typeof timeoutMs === "number" ? Math.ceil(timeoutMs) : timeoutMs,
      0,
      TIMEOUT_MS_MAX,
    );
    const untilMs = nowMs() + timeoutMs;
    for (;;) {
      this.#attached.enter();
      if (sides.workers.every((worker) => worker.loadsInFlight() === 0)) return true;
      this.#attached.expire();
      this.#attached.flush();
      const leftMs = Math.min(untilMs, sides.hooks.nextDeadlineMs()) - nowMs();
      if (nowMs() >= untilMs) return false;
      this.#attached.wait(Math.max(0, leftMs));
    }
  }

  /** get_finished: what is over since the last call. Never waits. */
  getFinished(): FinishedTransfers {
    const { sides, tables, requests } = this.#attached.enter();
    this.#attached.expire();
    const output = this.#attached.reported(sides.collect());
    const finishedRecving: string[] = [];
    const invalidBlockIds: number[] = [];
    const failedLoads: FailedLoad[] = [];
    for (let index = 0; index < output.doneLoadCount; index++) {
      const job = output.doneLoads[index]!;
      const id = requests.id(sides.hooks.jobSlot(job));
      if (id === undefined) continue;
      finishedRecving.push(id);
      const bad = this.#firstBad(output, index);
      if (bad === NONE) continue;
      failedLoads.push({ id, keptTokens: bad * tables.dimensions.blockSize });
      if (tables.dimensions.groups === 1) this.#addBlocks(job, bad, invalidBlockIds);
    }
    return {
      finishedSending: [],
      finishedRecving,
      invalidBlockIds,
      failedRecving: tables.dimensions.groups === 1 ? [] : failedLoads.map((load) => load.id),
      failedLoads,
      abandonedRecving: this.#attached.takeAbandoned(),
      output,
    };
  }

  /** The same rule as SchedulerHooks.applyOutput, which comes later. */
  #firstBad(output: ConnectorOutput, index: number): number {
    const bad = output.badChunks[index]!;
    if (bad === NONE && output.loadOutcomes[index] === OUTCOME_HIT) return NONE;
    const { tables, rules } = this.#attached;
    return firstBadChunk(tables, output.doneLoads[index]!, bad, rules);
  }

  #addBlocks(job: number, bad: number, into: number[]): void {
    const first = this.#job(job, JOB_CHUNK_FIRST);
    const page = this.#job(job, JOB_BLOCK_PAGE);
    for (let chunk = bad; chunk < first + this.#job(job, JOB_GROUP_BLOCKS); chunk++)
      into.push(this.#attached.tables.blocks.get(page, chunk - first));
  }

  #job(job: number, word: number): number {
    const { tables } = this.#attached;
    return tables.jobs[tables.job(job) + word]!;
  }
}
