import { EventEmitter } from "eventemitter3";
import { MessageChannel, Worker } from "node:worker_threads";
import { MooncakeKvError } from "../../errors.ts";
import { ActorControlClient } from "../control/actor-control.ts";
import { ACTOR_NAMES } from "../messages.ts";
import type { Log } from "../step.ts";
import { RESTART_LIMITS, RestartPolicy, type RestartLimits } from "./restart-policy.ts";
import type { FailOrder, FromThread, ResetAnswered, ResetRequest } from "./thread-messages.ts";

/** A step of the largest model that runs here takes seconds; after that the thread is ended all the same. */
const EXIT_REQUEST_TIMEOUT_MS = 30_000;

export interface ActorThread {
  /** An ACTOR_ number. */
  readonly actor: number;
  /** Compiled module that runs the actor. */
  readonly entry: URL;
  /** Structured-cloneable; `epoch` and `control` (a MessagePort, see serveControl) are added. */
  readonly workerData: object;
  /** How long the thread may take from its start to `ready`. */
  readonly startTimeoutMs: number;
  /**
   * Asks the thread to end itself soon, for threads that must not be ended from outside in the middle of native code that calls
   * back into JavaScript (onnxruntime aborts the process then). Absent: the thread is ended at once.
   */
  readonly requestExit?: () => void;
}

export interface SupervisorEvents {
  died: [actor: number, epoch: number, cause: Error];
  restarted: [actor: number, epoch: number];
  /** Died too often: the actor's thread stays down. */
  givenUp: [actor: number, cause: Error];
}

export interface SupervisorOptions {
  readonly log: Log;
  readonly nowMs: () => number;
  /** Runs just after a death and before the successor starts: counts the death, records the trace event. */
  readonly onDeath: (actor: number, epoch: number) => void;
  /** Runs when a successor is ready: tells the other actors. */
  readonly onRestarted: (actor: number, epoch: number) => void;
  /** Runs when an actor is given up: no thread of it lives, and none will. Tells the other actors. */
  readonly onGivenUp: (actor: number, epoch: number) => void;
  /** An actor's thread asks on behalf of another process; true when it is done by the deadline. Must not reject. */
  readonly resetPool: (deadlineMs: number) => Promise<boolean>;
  readonly restartLimits?: RestartLimits;
}

interface Supervised {
  readonly thread: ActorThread;
  readonly policy: RestartPolicy;
  worker: Worker | undefined;
  epoch: number;
  ready: boolean;
  exited: Promise<void>;
  control: ActorControlClient | undefined;
}

/**
 * Starts actor threads, restarts those that throw or die, and stops them in order. Lives on the thread that made the runtime;
 * restarts need that thread's event loop to turn, deadlines inside the actors do not.
 */
export class Supervisor extends EventEmitter<SupervisorEvents> {
  readonly #options: SupervisorOptions;
  readonly #actors = new Map<number, Supervised>();
  readonly #restarts = new Set<NodeJS.Timeout>();
  #closing = false;

  constructor(options: SupervisorOptions) {
    super();
    this.#options = options;
  }

  async start(thread: ActorThread): Promise<void> {
    const supervised: Supervised = {
      thread,
      policy: new RestartPolicy(this.#options.restartLimits ?? RESTART_LIMITS),
      worker: undefined,
      epoch: 0,
      ready: false,
      exited: Promise.resolve(),
      control: undefined,
    };
    this.#actors.set(thread.actor, supervised);
    await this.#spawn(supervised);
  }

  /** The actor has, or had, a thread of its own here. */
  has(actor: number): boolean {
    return this.#actors.has(actor);
  }

  /** The actor's thread is alive and has said that it is ready; a successor that still starts is not. */
  running(actor: number): boolean {
    return this.#actors.get(actor)?.ready === true;
  }

  epoch(actor: number): number {
    return this.#actors.get(actor)?.epoch ?? 0;
  }

  /** Control calls to the actor's present thread; undefined while it is down. */
  control(actor: number): ActorControlClient | undefined {
    return this.#actors.get(actor)?.control;
  }

  /** Test seam and operator's tool: ends the thread at once, as a crash would. */
  async kill(actor: number): Promise<void> {
    const supervised = this.#actors.get(actor);
    if (supervised !== undefined) await this.#end(supervised);
  }

  /**
   * Test seam: the actor throws in the middle of its next step that takes a message; that message is lost. The model's thread,
   * which has no steps, takes no such order.
   */
  fail(actor: number): void {
    this.#actors.get(actor)?.worker?.postMessage({ order: "fail" } satisfies FailOrder);
  }

  /** No restarts from here on. Call before sending `stop` messages. */
  beginShutdown(): void {
    this.#closing = true;
    // A restart that is due later would keep the process from ending.
    for (const restart of this.#restarts) clearTimeout(restart);
  }

  /** Waits until the actor's thread has ended by itself, at most `timeoutMs`, then ends it. True when it ended by itself. */
  async waitStopped(actor: number, timeoutMs: number): Promise<boolean> {
    const supervised = this.#actors.get(actor);
    if (supervised === undefined) return true;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<false>((resolve) => {
      timer = setTimeout(() => resolve(false), timeoutMs);
    });
    const ended = await Promise.race([supervised.exited.then(() => true as const), late]);
    clearTimeout(timer);
    if (!ended) await this.#end(supervised);
    return ended;
  }

  async #end(supervised: Supervised): Promise<void> {
    const { worker, thread, exited } = supervised;
    if (worker === undefined) return;
    if (thread.requestExit === undefined) return void (await worker.terminate());
    thread.requestExit();
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(() => resolve(void worker.terminate()), EXIT_REQUEST_TIMEOUT_MS);
    });
    await Promise.race([exited, late]);
    clearTimeout(timer);
  }

  #spawn(supervised: Supervised): Promise<void> {
    const { thread } = supervised;
    const epoch = ++supervised.epoch;
    const { port1: own, port2: control } = new MessageChannel();
    const worker = new Worker(thread.entry, {
      workerData: { ...thread.workerData, epoch, control },
      transferList: [control],
      name: `mooncake-kv ${ACTOR_NAMES[thread.actor]}`,
    });
    supervised.worker = worker;
    const client = new ActorControlClient(own, ACTOR_NAMES[thread.actor] ?? "unknown");
    supervised.control = client;
    let cause: Error | undefined;
    return new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => {
        cause = new MooncakeKvError({
          code: "TIMEOUT",
          field: `${ACTOR_NAMES[thread.actor]} actor`,
          value: thread.startTimeoutMs,
          problem: "did not become ready in time (milliseconds)",
          remedy: "Give the machine more CPU, or look at the log for what it was doing.",
        });
        void this.#end(supervised);
      }, thread.startTimeoutMs);
      worker.on("message", (message: FromThread) => {
        if ("request" in message) {
          void this.#reset(worker, message);
          return;
        }
        // The error itself says more, and may come before this message or after it.
        if (message.lifeCycle === "failed") cause ??= new Error(message.message);
        if (message.lifeCycle !== "ready") return;
        clearTimeout(timer);
        supervised.ready = true;
        resolve();
      });
      worker.on("error", (error: Error) => {
        cause = error;
      });
      supervised.exited = new Promise((exited) => {
        worker.on("exit", (code) => {
          clearTimeout(timer);
          supervised.worker = undefined;
          supervised.control = undefined;
          client.close();
          supervised.ready = false;
          exited();
          const error = cause ?? new Error(`the thread ended with code ${code}`);
          reject(error);
          if (epoch > 1 || supervised.policy.everReady) this.#died(supervised, epoch, error);
        });
      });
    }).then(() => {
      supervised.policy.everReady = true;
    });
  }

  async #reset(worker: Worker, { id, deadlineMs }: ResetRequest): Promise<void> {
    const acknowledged = await this.#options.resetPool(deadlineMs).catch((error: unknown) => {
      this.#options.log.error({ error: String(error) }, "a reset of the pool failed");
      return false;
    });
    // To a thread that has ended meanwhile this does nothing.
    worker.postMessage({ order: "resetAnswered", id, acknowledged } satisfies ResetAnswered);
  }

  #died(supervised: Supervised, epoch: number, cause: Error): void {
    if (this.#closing) return;
    const { actor } = supervised.thread;
    this.#options.onDeath(actor, epoch);
    this.#options.log.error(
      { actor: ACTOR_NAMES[actor], epoch, error: cause.message, stack: cause.stack },
      "actor died",
    );
    this.emit("died", actor, epoch, cause);
    const delayMs = supervised.policy.delayMs(this.#options.nowMs());
    if (delayMs === Infinity) return this.#giveUp(actor, epoch, cause);
    const restart = setTimeout(() => {
      this.#restarts.delete(restart);
      // A start that fails ends in the exit handler too, which has arranged the next try already.
      this.#spawn(supervised).then(
        () => this.#restarted(supervised),
        () => undefined,
      );
    }, delayMs);
    this.#restarts.add(restart);
  }

  #restarted(supervised: Supervised): void {
    const { thread, epoch } = supervised;
    const name = ACTOR_NAMES[thread.actor];
    try {
      this.#options.onRestarted(thread.actor, epoch);
    } catch (error) {
      // Others would wait for ever for what the dead thread had: a successor that they know nothing of is of no use.
      this.#options.log.error(
        { actor: name, epoch, error: String(error) },
        "restart not announced",
      );
      void this.#end(supervised);
      return;
    }
    this.#options.log.warn({ actor: name, epoch }, "actor restarted");
    this.emit("restarted", thread.actor, epoch);
  }

  #giveUp(actor: number, epoch: number, cause: Error): void {
    this.#options.log.error({ actor: ACTOR_NAMES[actor], epoch }, "actor died too often: given up");
    this.#options.onGivenUp(actor, epoch);
    this.emit("givenUp", actor, cause);
  }
}
