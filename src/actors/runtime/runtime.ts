import { randomBytes } from "node:crypto";
import type { TableDimensions } from "../../blocks/tables.ts";
import type { ConnectorConfig } from "../../config/connector-config.ts";
import type { KvCacheConfig } from "../../config/kv-cache-config.ts";
import { releaseEndedOwner } from "../../connector/embedded/ownership.ts";
import type { ResetAnswer, ResetOptions } from "../../connector/reset-answer.ts";
import type { KvEventSource } from "../../events/event-source.ts";
import type { NativeBinding } from "../../native/binding.ts";
import { workerEntry } from "../../worker-entry.ts";
import type { ActorControlClient } from "../control/actor-control.ts";
import { prepareRecordFolder } from "../hosts/recording/record-folder.ts";
import { claimSocketPath, lookupSocketPath } from "../hosts/lookup-rpc/socket-path.ts";
import { openThreadEnds, type ThreadEnds } from "../hosts/thread-ends.ts";
import {
  ACTOR_FRONT_END,
  ACTOR_LOADER,
  ACTOR_LOOKUP,
  ACTOR_MODEL,
  ACTOR_SAVER,
  ACTOR_SCHEDULER,
} from "../messages.ts";
import type { Log } from "../step.ts";
import type { ActorThread, Supervisor } from "../supervision/supervisor.ts";
import type { RestartLimits } from "../supervision/restart-policy.ts";
import {
  CONTROL_MODEL_EXIT_WORD,
  CONTROL_OWNER_WORD,
  type ActorThreadData,
  type RuntimePlan,
  type SchedulerLimits,
} from "../plan.ts";
import { EngineWatch } from "./engine-watch.ts";
import { eventActors, openEventSource } from "./event-rings.ts";
import type { IdentityCheck } from "./identity-check.ts";
import { type KvMemory, openKvMemory } from "./kv-memory.ts";
import { refusePlans } from "./refuse-plans.ts";
import { warnOfRandomHashes, watchMembership } from "./membership.ts";
import { PoolResets } from "./reset.ts";
import { RuntimeResources } from "./resources.ts";
import { isIndispensable, superviseActors, type SupervisedActors } from "./supervised-actors.ts";
import { dumpState, type StateDump } from "./state-dump.ts";

const ACTOR_START_TIMEOUT_MS = 30_000;

export interface RuntimeOptions {
  readonly native: NativeBinding;
  readonly kvCache: KvCacheConfig;
  readonly connector: ConnectorConfig;
  readonly hashSeed: string | null;
  readonly dimensions: TableDimensions;
  readonly kvMemory: KvMemory;
  /** null: the serving loop has its own scheduler and attaches the connector to its own thread. */
  readonly scheduler: SchedulerLimits | null;
  /** Makes the model's thread; required with the built-in scheduler. */
  readonly modelThread?: (plan: RuntimePlan, regionId: number) => Omit<ActorThread, "actor">;
  /** When an actor that keeps dying is given up. Default: RESTART_LIMITS. */
  readonly restartLimits?: RestartLimits;
  readonly trace: boolean;
  /** KV events are made, with this form of hashes; who made the runtime takes them (`kvEvents`). Default: none are made. */
  readonly kvEvents?: { readonly integerHashes: boolean } | undefined;
  /** Every actor thread writes a recording of its steps into this folder (see hosts/recording). Default: none. */
  readonly recordFolder?: string | undefined;
  readonly logLevel: string;
  readonly log: Log;
}

/**
 * One runtime: shared memory, native handles and actor threads. Made and stopped on one thread, which serves as front end
 * (and, without a built-in scheduler, as the connector's thread).
 */
export class Runtime {
  readonly native: NativeBinding;
  readonly plan: RuntimePlan;
  readonly ends: ThreadEnds;
  readonly supervisor: Supervisor;
  /** KV memory, one region for each storage. */
  readonly regionIds: readonly number[];
  readonly engineId: number;
  /** What actors tell of their blocks; null when no KV events are made. */
  readonly kvEvents: KvEventSource | null;
  readonly engine: EngineWatch;
  /** Whether the pool's other members agree with this one. */
  readonly membership: IdentityCheck;
  readonly #resources: RuntimeResources;
  readonly #options: RuntimeOptions;
  readonly #resets: PoolResets;
  readonly #started: number[] = [];
  readonly #supervised: SupervisedActors;
  #stopping: Promise<number> | undefined;

  private constructor(options: RuntimeOptions) {
    const { native, log, recordFolder } = options;
    if (recordFolder !== undefined) prepareRecordFolder(recordFolder);
    this.#options = options;
    warnOfRandomHashes(options);
    this.native = native;
    if (options.scheduler !== null) refusePlans(options.kvCache, options.connector);
    const { regionIds, segments } = openKvMemory(options);
    this.regionIds = regionIds;
    try {
      this.#resources = new RuntimeResources({
        ...options,
        segments,
        randomBytes,
        ...(options.kvEvents === undefined ? {} : { eventActors: eventActors(options) }),
      });
    } catch (error) {
      for (const regionId of regionIds) native.regionRelease(regionId);
      throw error;
    }
    this.plan = this.#resources.plan;
    this.kvEvents = openEventSource(options, this.plan);
    this.engineId = this.#resources.engineId;
    // One thread is front end, supervisor and, without a built-in scheduler, the connector's: one producer.
    this.ends = openThreadEnds(this.plan, native, ACTOR_FRONT_END);
    this.#supervised = superviseActors({
      plan: this.plan,
      ends: this.ends,
      native,
      log,
      audience: () =>
        options.scheduler === null ? [...this.#started, ACTOR_SCHEDULER] : this.#started,
      resetPool: (deadlineMs) => this.#resets.resetForPeer(deadlineMs),
      ...(options.restartLimits === undefined ? {} : { restartLimits: options.restartLimits }),
    });
    this.supervisor = this.#supervised.supervisor;
    const { engineId, engineWakeId: wakeId, engineHasLog: hasLog } = this.#resources;
    this.engine = new EngineWatch({
      native,
      engineId,
      wakeId,
      hasLog,
      trace: this.#supervised.trace,
      log,
    });
    this.membership = watchMembership({
      ...options,
      engineId,
      engine: this.engine,
      noneHash: this.#resources.noneHash,
      nowMs: this.ends.nowMs,
      control: this.plan.control,
      keyPrefixes: this.#resources.keyPrefixes,
      trace: this.#supervised.trace,
    });
    const { ends, membership, kvEvents } = this;
    this.#resets = new PoolResets({ ...options, engineId, ends, membership, kvEvents });
  }

  /** Starts all actor threads and waits a while for engine and membership. On failure everything that was started is stopped again and the error is thrown. */
  static async start(options: RuntimeOptions): Promise<Runtime> {
    const path = lookupSocketPath(options.connector, options.kvCache);
    if (path !== null && options.connector.lookupRpcRole === "server") await claimSocketPath(path);
    const runtime = new Runtime(options);
    try {
      const { engineStartTimeoutMs, lookupTimeoutMs } = options.connector;
      const settled = runtime.engine.settle(engineStartTimeoutMs);
      // Looked at when the actors have started: a stop amid their start would leave some behind.
      settled.catch(() => undefined);
      await runtime.#startActors();
      await settled;
      await runtime.membership.settle(lookupTimeoutMs);
    } catch (error) {
      await runtime.stop();
      throw error;
    }
    return runtime;
  }

  /** Every actor that should run does; those that requests go on without for good are left out. */
  healthy(): boolean {
    return (
      this.#stopping === undefined &&
      this.#started.every(
        (actor) =>
          this.supervisor.running(actor) || (this.ends.gone(actor) && !isIndispensable(actor)),
      )
    );
  }

  /** Control calls to an actor's thread (`actor`: an ACTOR_ number); undefined while it is down or was never started. */
  control(actor: number): ActorControlClient | undefined {
    return this.supervisor.control(actor);
  }

  /** What all actors have in hand and what the shared tables show, for a person; never rejects. See dumpState. */
  dump(): Promise<StateDump> {
    const runs = this.#stopping === undefined;
    return dumpState(this.plan, this.ends, this.supervisor, this.engine.status(), runs);
  }

  /** Saves and lookups are held back meanwhile; see `PoolResets`. */
  resetPool(options: ResetOptions): Promise<ResetAnswer> {
    return this.#resets.reset(options);
  }

  /**
   * Tells that a thread which had attached the connector has ended (its Worker has emitted "exit") without letting go: another
   * may attach. False: it had not attached. A thread that attaches with ThreadEnds of its own sends as ACTOR_SCHEDULER.
   */
  attachedThreadEnded(threadId: number): boolean {
    const owner = new Int32Array(this.plan.control).subarray(CONTROL_OWNER_WORD);
    if (!releaseEndedOwner(owner, threadId)) return false;
    this.ends.outboxes.producerDied(ACTOR_SCHEDULER);
    return true;
  }

  /**
   * Orderly shutdown within `timeoutMs`: scheduler first (it drains), then loader, saver, lookup, model; then
   * the engine. Returns how many engine batches could not be waited for. May be called again; all callers get one result.
   */
  stop(timeoutMs: number = this.#options.connector.shutdownTimeoutMs): Promise<number> {
    this.#stopping ??= this.#stop(timeoutMs);
    return this.#stopping;
  }

  async #startActors(): Promise<void> {
    const { connector, kvCache, scheduler, modelThread } = this.#options;
    const thread = (actor: number): ActorThread => ({
      actor,
      entry: workerEntry("actors/hosts/actor-thread.js"),
      workerData: {
        plan: this.plan,
        actor,
        connector,
        kvCache,
        scheduler,
        recordFolder: this.#options.recordFolder ?? null,
      } satisfies ActorThreadData,
      startTimeoutMs: ACTOR_START_TIMEOUT_MS,
    });
    const threads = [ACTOR_LOOKUP, ACTOR_LOADER, ACTOR_SAVER].map(thread);
    if (scheduler !== null) {
      if (modelThread !== undefined)
        threads.push({
          actor: ACTOR_MODEL,
          ...modelThread(this.plan, this.regionIds[0]!),
          requestExit: () => this.#requestModelExit(),
        });
      threads.push(thread(ACTOR_SCHEDULER));
    }
    for (const { actor } of threads) this.#started.push(actor);
    await Promise.all(threads.map((one) => this.supervisor.start(one)));
  }

  #requestModelExit(): void {
    const control = new Int32Array(this.plan.control);
    // Pairs with the model thread's load between two runs.
    Atomics.store(control, CONTROL_MODEL_EXIT_WORD, this.supervisor.epoch(ACTOR_MODEL));
    this.native.wake(this.plan.wakeIds[ACTOR_MODEL]!);
  }

  async #stop(timeoutMs: number): Promise<number> {
    const deadlineMs = this.ends.nowMs() + timeoutMs;
    this.supervisor.beginShutdown();
    this.#supervised.endDrains();
    this.#resets.end();
    // The scheduler drains through the others, so it goes first and alone.
    for (const group of [
      [ACTOR_SCHEDULER],
      [ACTOR_LOADER, ACTOR_SAVER, ACTOR_LOOKUP, ACTOR_MODEL],
    ]) {
      const present = group.filter((actor) => this.#started.includes(actor));
      for (const actor of present)
        this.ends.outboxes.send(actor, { kind: "stop", deadlineMs: Math.ceil(deadlineMs) });
      this.ends.outboxes.flush();
      await Promise.all(
        present.map((actor) =>
          // A scheduler whose step no model ends does not stop by itself.
          this.supervisor.waitStopped(
            actor,
            actor === ACTOR_SCHEDULER && this.ends.gone(ACTOR_MODEL)
              ? 0
              : Math.max(100, deadlineMs - this.ends.nowMs()),
          ),
        ),
      );
    }
    this.engine.close();
    this.membership.close();
    const inFlight = this.#resources.release(
      Math.ceil(Math.max(100, deadlineMs - this.ends.nowMs())),
    );
    for (const regionId of this.regionIds) this.native.regionRelease(regionId);
    return inFlight;
  }
}
