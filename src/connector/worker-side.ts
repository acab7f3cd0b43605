import { recordStale } from "../actors/mailbox/stale.ts";
import {
  ACTOR_LOADER,
  ACTOR_SAVER,
  OUTCOME_CANCELLED,
  OUTCOME_ENGINE_DOWN,
  OUTCOME_TIMEOUT,
} from "../actors/messages.ts";
import type { LoadDone, SaveDone } from "../actors/messages.ts";
import {
  JOB_ANSWERED_WORD,
  JOB_HANDED_OUT,
  JOB_KIND,
  JOB_KIND_LOAD,
  JOB_KIND_SAVE,
  JOB_LIVE_WORD,
  JOB_RANKS,
  JOB_STATE_NEW,
  JOB_STATE_WORD,
  JOB_TICKET,
  NONE,
  stateOf,
} from "../blocks/layout.ts";
import { Deadlines } from "../blocks/deadlines.ts";
import type { ConnectorMetadata, ConnectorOutput } from "./hooks.ts";
import {
  addDoneLoad,
  addDoneSave,
  clearConnectorOutput,
  createConnectorOutput,
} from "./outputs.ts";
import type { SidePorts } from "./ports.ts";

/**
 * The worker side of one rank: hands jobs to loader and saver and collects their reports. A job is reported only when its
 * actor has acknowledged it, also after a cancel: until then an engine may touch its blocks.
 */
export class WorkerSide {
  /** Reports that no job of this side waited for. */
  staleMessages = 0;
  readonly #ports: SidePorts;
  readonly #worker: number;
  readonly #started: Uint8Array;
  readonly #overdue: Uint8Array;
  readonly #loadDeadlines: Deadlines;
  readonly #done: ConnectorOutput;
  #loads = 0;
  #loaderGone = false;
  #saverGone = false;
  /** Jobs taken over as done after a restart: reported with the first collection if no message has come until then. */
  #adopted: number[] = [];

  constructor(ports: SidePorts, worker: number) {
    const { jobSlots } = ports.tables.dimensions;
    this.#ports = ports;
    this.#worker = worker;
    this.#started = new Uint8Array(jobSlots);
    this.#overdue = new Uint8Array(jobSlots);
    this.#loadDeadlines = new Deadlines(jobSlots);
    this.#done = createConnectorOutput(jobSlots);
  }

  /** Jobs whose report is still to come or to be collected. */
  inFlight(): number {
    let jobs = this.#done.doneLoadCount + this.#done.doneSaveCount;
    for (const started of this.#started) jobs += started;
    return jobs;
  }

  /** Loads whose report is still to come. */
  loadsInFlight(): number {
    return this.#loads;
  }

  /** start_load_kv: call before the step's model run when `hasSyncLoads`, otherwise at any time of the step. */
  startLoads(metadata: ConnectorMetadata): void {
    const deadline = this.#ports.nowMs() + this.#ports.settings.loadTimeoutMs;
    for (let index = 0; index < metadata.loadCount; index++) {
      const job = metadata.loads[index]!;
      if (!this.#startable(job, JOB_KIND_LOAD)) continue;
      this.#started[job] = 1;
      this.#overdue[job] = 0;
      this.#loads++;
      this.#loadDeadlines.set(job, deadline);
      this.#handOut(job);
      if (this.#loaderGone) this.#end(job, OUTCOME_ENGINE_DOWN);
      else this.#sendJob("load", job);
    }
  }

  /** wait_for_save: starts saves and does not wait. Call when the step that computed the blocks is over. */
  startSaves(metadata: ConnectorMetadata): void {
    for (let index = 0; index < metadata.saveCount; index++) {
      const job = metadata.saves[index]!;
      if (!this.#startable(job, JOB_KIND_SAVE)) continue;
      this.#started[job] = 1;
      this.#overdue[job] = 0;
      this.#handOut(job);
      if (this.#saverGone) this.#end(job, OUTCOME_ENGINE_DOWN);
      else this.#sendJob("save", job);
    }
  }

  /**
   * A loader or saver runs anew. Its predecessor may have died between taking a message and marking its job as taken; such
   * jobs are sent again. The successor drops the repetition of one that it has, or whose message is still in its mailbox.
   */
  actorRestarted(actor: number): void {
    const kind = actor === ACTOR_LOADER ? JOB_KIND_LOAD : JOB_KIND_SAVE;
    const { tables } = this.#ports;
    for (let job = 0; job < this.#started.length; job++) {
      const at = tables.job(job);
      if (this.#started[job] !== 1 || tables.jobs[at + JOB_KIND] !== kind) continue;
      // Pairs with the loader's and the saver's store when they take a job.
      const state = stateOf(Atomics.load(tables.jobs, at + JOB_STATE_WORD));
      if (state === JOB_STATE_NEW || !this.#isOnlyRank(job))
        this.#sendJob(kind === JOB_KIND_LOAD ? "load" : "save", job);
    }
  }

  /** Loader or saver was given up, and the engine holds no batch of it: every job that waits for it is over. */
  actorGone(actor: number): void {
    const kind = actor === ACTOR_LOADER ? JOB_KIND_LOAD : JOB_KIND_SAVE;
    if (actor === ACTOR_LOADER) this.#loaderGone = true;
    else this.#saverGone = true;
    const { tables } = this.#ports;
    for (let job = 0; job < this.#started.length; job++)
      if (this.#started[job] === 1 && tables.jobs[tables.job(job) + JOB_KIND] === kind)
        this.#end(job, OUTCOME_ENGINE_DOWN);
  }

  /** False (counted, logged) for a report that is late, a duplicate, or of another worker side. */
  receive(message: LoadDone | SaveDone): boolean {
    const { job } = message;
    const awaited = this.#started[job] === 1 && message.ticket === this.#ticket(job);
    if (message.worker !== this.#worker || !awaited) {
      this.staleMessages++;
      recordStale(this.#ports, message);
      return false;
    }
    this.#started[job] = 0;
    if (message.kind === "saveDone") {
      addDoneSave(this.#done, job, message.outcome);
      return true;
    }
    this.#loads--;
    this.#loadDeadlines.delete(job);
    // A load that was cancelled because it was overdue ended by its deadline.
    const cancelled = message.outcome === OUTCOME_CANCELLED && this.#overdue[job] === 1;
    addDoneLoad(this.#done, job, cancelled ? OUTCOME_TIMEOUT : message.outcome, message.badChunk);
    return true;
  }

  /** get_finished: appends what was reported since the last call to `output`. */
  collect(output: ConnectorOutput): void {
    for (const job of this.#adopted) this.#reportAdopted(job);
    this.#adopted = [];
    for (let index = 0; index < this.#done.doneLoadCount; index++)
      addDoneLoad(
        output,
        this.#done.doneLoads[index]!,
        this.#done.loadOutcomes[index]!,
        this.#done.badChunks[index]!,
      );
    for (let index = 0; index < this.#done.doneSaveCount; index++)
      addDoneSave(output, this.#done.doneSaves[index]!, this.#done.saveOutcomes[index]!);
    clearConnectorOutput(this.#done);
  }

  nextDeadlineMs(): number {
    return this.#loadDeadlines.nextMs();
  }
  /** Cancels overdue loads, once each; their reports still come. Needed only where no scheduler side shares the loader. */
  expire(): void {
    const now = this.#ports.nowMs();
    for (;;) {
      const job = this.#loadDeadlines.takeDue(now);
      if (job === NONE) return;
      this.#overdue[job] = 1;
      this.#ports.send(ACTOR_LOADER, { kind: "cancelLoad", job, ticket: this.#ticket(job) });
    }
  }

  /**
   * After a restart, before the first message: waits for the reports of all live jobs. A job that was handed out and that its
   * actor never took is announced again. One that its actor has finished is reported as cancelled, because its message may
   * have died with us; so is one that was never handed out, because the step that computes its blocks may never have run.
   */
  adopt(): void {
    const { tables } = this.#ports;
    for (let job = 0; job < this.#started.length; job++) {
      const at = tables.job(job);
      // Pairs with the scheduler side's publishing store.
      if (Atomics.load(tables.jobs, at + JOB_LIVE_WORD) === 0) continue;
      if ((tables.jobs[at + JOB_RANKS]! & (1 << this.#worker)) === 0) continue;
      this.#started[job] = 1;
      this.#overdue[job] = 0;
      // Pairs with the loader's and saver's stores: what they had not taken, they have to be told again.
      const state = stateOf(Atomics.load(tables.jobs, at + JOB_STATE_WORD));
      const save = tables.jobs[at + JOB_KIND] === JOB_KIND_SAVE;
      if (!save) this.#loads++;
      const handedOut = (tables.jobs[at + JOB_HANDED_OUT]! & (1 << this.#worker)) !== 0;
      // Its report may have died with us, while those of other ranks are still to come.
      // Pairs with the loader's and saver's Atomics.or.
      const answered = Atomics.load(tables.jobs, at + JOB_ANSWERED_WORD) & (1 << this.#worker);
      if (answered !== 0 || !handedOut) this.#adopted.push(job);
      else if (state === JOB_STATE_NEW || !this.#isOnlyRank(job))
        this.#sendJob(save ? "save" : "load", job);
    }
  }

  /** Not released since (its request has left, its deadline has passed), and not started before. */
  #startable(job: number, kind: number): boolean {
    const { tables } = this.#ports;
    const at = tables.job(job);
    if ((tables.jobs[at + JOB_HANDED_OUT]! & (1 << this.#worker)) !== 0) return false;
    // Pairs with the scheduler side's stores: a record is live from its creation to its release.
    return (
      Atomics.load(tables.jobs, at + JOB_LIVE_WORD) !== 0 && tables.jobs[at + JOB_KIND] === kind
    );
  }

  /** Otherwise the job's state says nothing of this rank: another one's message may have been taken, and ours may be lost. */
  #isOnlyRank(job: number): boolean {
    const { tables } = this.#ports;
    return tables.jobs[tables.job(job) + JOB_RANKS] === 1 << this.#worker;
  }

  #sendJob(kind: "load" | "save", job: number): void {
    const message = { job, ticket: this.#ticket(job), worker: this.#worker };
    if (kind === "load") this.#ports.send(ACTOR_LOADER, { kind, ...message });
    else this.#ports.send(ACTOR_SAVER, { kind, ...message });
  }
  #ticket(job: number): number {
    const { tables } = this.#ports;
    return tables.jobs[tables.job(job) + JOB_TICKET]!;
  }
  #handOut(job: number): void {
    const { tables } = this.#ports;
    const at = tables.job(job) + JOB_HANDED_OUT;
    tables.jobs[at] = tables.jobs[at]! | (1 << this.#worker);
  }

  #reportAdopted(job: number): void {
    if (this.#started[job] === 1) this.#end(job, OUTCOME_CANCELLED);
  }

  /** Ends a job without a report. */
  #end(job: number, outcome: number): void {
    this.#started[job] = 0;
    const { tables } = this.#ports;
    if (tables.jobs[tables.job(job) + JOB_KIND] === JOB_KIND_SAVE)
      addDoneSave(this.#done, job, outcome);
    else {
      this.#loads--;
      this.#loadDeadlines.delete(job);
      addDoneLoad(this.#done, job, outcome, NONE);
    }
  }
}
