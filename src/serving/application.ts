import { ACTOR_FRONT_END, ACTOR_NAMES } from "../actors/messages.ts";
import type { Runtime } from "../actors/runtime/runtime.ts";
import { isIndispensable } from "../actors/runtime/supervised-actors.ts";
import type { StateDump } from "../actors/runtime/state-dump.ts";
import type { Log } from "../actors/step.ts";
import { RequestSlots } from "../blocks/request-slots.ts";
import { MooncakeKvError } from "../errors.ts";
import type { KvEventPublisher } from "../events/publisher.ts";
import type { NativeBinding } from "../native/binding.ts";
import { CounterBlock, COUNTERS, GAUGES } from "../trace/counters.ts";
import { Metrics } from "../trace/metrics.ts";
import { CacheReset } from "./cache-reset.ts";
import type { AccessOptions } from "./http/access/access.ts";
import type { RoutePorts } from "./http/routes.ts";
import { closeInOrder } from "./close-in-order.ts";
import { KvEventPublishing } from "./kv-event-publishing.ts";
import { FrontEnd } from "./front-end.ts";
import { isLoopback } from "./listening.ts";
import type { PreparedModel } from "./model/prepared-model.ts";
import { loadTokenizer, type ModelTokenizer } from "./model/tokenizer.ts";
import { OpenAiServer } from "./server.ts";
import { type ServingRuntimeOptions, startServingRuntime } from "./serving-runtime.ts";
import { PromptEncoder } from "./tokenizing/prompt-encoder.ts";
import { checkTraceFile, ServingTrace } from "./serving-trace.ts";

export interface ApplicationOptions extends Omit<
  ServingRuntimeOptions,
  "endTokenIds" | "trace" | "kvEvents"
> {
  /** null: no HTTP server, only the front end (benchmarks). */
  readonly http:
    | (AccessOptions & {
        readonly host: string;
        readonly port: number;
        readonly debugRoutes: boolean;
        /** Adds POST /reset_prefix_cache. Default: where only this machine can reach it. */
        readonly adminRoutes?: boolean;
      })
    | null;
  /** Where KV events go, and the form of their hashes; absent: none are made. Closed with the application. */
  readonly kvEvents?:
    | { readonly publisher: KvEventPublisher; readonly integerHashes: boolean }
    | undefined;
  /** Chrome trace file, or null for no tracing. */
  readonly traceFile: string | null;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly wallClockMs: () => number;
}

/** Part of the shutdown's time that running answers may take; the rest is for aborts, actors and engine. */
const DRAIN_SHARE = 0.6;

/** A whole serving process: runtime, front end, HTTP server, trace and metrics, started and stopped in order. */
export class Application {
  readonly modelName: string;
  readonly runtime: Runtime;
  readonly frontEnd: FrontEnd;
  readonly tokenizer: ModelTokenizer;
  readonly server: OpenAiServer | null;
  /**
   * Resolves when the scheduler or the model was given up: every request has ended with an error by then, none is taken, and
   * all that is left to do is `stop`. Never, in a process that goes well.
   */
  readonly failed: Promise<MooncakeKvError>;
  readonly #trace: ServingTrace | null;
  readonly #prompts: PromptEncoder | null;
  readonly #events: KvEventPublishing | null;
  readonly #shutdownTimeoutMs: number;
  #stopped: Promise<number> | undefined;

  private constructor(parts: {
    modelName: string;
    runtime: Runtime;
    frontEnd: FrontEnd;
    tokenizer: ModelTokenizer;
    server: OpenAiServer | null;
    trace: ServingTrace | null;
    prompts: PromptEncoder | null;
    events: KvEventPublishing | null;
    shutdownTimeoutMs: number;
  }) {
    this.modelName = parts.modelName;
    this.runtime = parts.runtime;
    this.frontEnd = parts.frontEnd;
    this.tokenizer = parts.tokenizer;
    this.server = parts.server;
    this.#trace = parts.trace;
    this.#prompts = parts.prompts;
    this.#events = parts.events;
    this.#shutdownTimeoutMs = parts.shutdownTimeoutMs;
    this.failed = new Promise((resolve) => {
      this.runtime.supervisor.on("givenUp", (actor, cause) => {
        if (!isIndispensable(actor)) return;
        this.frontEnd.fail();
        resolve(givenUp(actor, cause));
      });
    });
  }

  /** Ready to answer when the promise resolves. On failure nothing stays behind. */
  static async start(options: ApplicationOptions): Promise<Application> {
    const { model, native, log } = options;
    if (options.traceFile !== null) checkTraceFile(options.traceFile);
    const tokenizer = await loadTokenizer(model);
    const runtime = await startServingRuntime({
      ...options,
      endTokenIds: tokenizer.endTokenIds,
      trace: options.traceFile !== null,
    });
    const frontEnd = startFrontEnd(runtime, log);
    const events = publishEvents(runtime, options.kvEvents?.publisher);
    let trace: ServingTrace | null = null;
    let prompts: PromptEncoder | null = null;
    let server: OpenAiServer | null = null;
    const application = (): Application =>
      new Application({
        modelName: model.modelName,
        runtime,
        frontEnd,
        tokenizer,
        server,
        trace,
        prompts,
        events,
        shutdownTimeoutMs: options.connector.shutdownTimeoutMs,
      });
    try {
      if (options.traceFile !== null)
        trace = new ServingTrace(runtime.plan, options.traceFile, frontEnd.requestId, log);
      if (options.http !== null) {
        prompts = PromptEncoder.start(model, tokenizer, log);
        server = await OpenAiServer.start({
          ...options.http,
          frontEnd,
          model: {
            modelName: model.modelName,
            tokenizer,
            prompts,
            contextTokensMax: model.contextTokensMax,
          },
          random: options.random,
          wallClockMs: options.wallClockMs,
          healthy: () => runtime.healthy(),
          engineState: () => runtime.engine.status().state,
          membership: () => runtime.membership.status(),
          dumpState: () => dumpServing(runtime, frontEnd),
          resetCache: cacheReset(options, runtime, frontEnd),
          metrics: startMetrics(runtime, native, model, events),
          log,
        });
      }
      return application();
    } catch (error) {
      await application().stop();
      throw error;
    }
  }

  /**
   * Refuses new requests, drains, stops actors and engine, all within the connector's shutdownTimeoutMs. Returns how many engine batches could not be
   * waited for.
   */
  stop(): Promise<number> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  /** What everything has in hand, for a person who looks for what is stuck. JSON-able. Answers within about a second. */
  dumpState(): Promise<ServingDump> {
    return dumpServing(this.runtime, this.frontEnd);
  }

  async #stop(): Promise<number> {
    const { nowMs } = this.runtime.ends;
    const deadlineMs = nowMs() + this.#shutdownTimeoutMs;
    let inFlight = 0;
    // Each part is closed, whatever happened to those before it.
    await closeInOrder([
      async () => {
        if (this.server === null) this.frontEnd.beginShutdown();
        else await this.server.close(this.#shutdownTimeoutMs * DRAIN_SHARE);
      },
      async () => this.#prompts?.close(),
      async () => {
        inFlight = await this.runtime.stop(Math.max(0, deadlineMs - nowMs()));
      },
      async () => {
        this.frontEnd.close();
        this.runtime.native.wakeClose(this.runtime.plan.wakeIds[ACTOR_FRONT_END]!);
      },
      async () => this.#trace?.close(),
      async () => this.#events?.close(),
    ]);
    return inFlight;
  }
}

function givenUp(actor: number, cause: Error): MooncakeKvError {
  return new MooncakeKvError({
    code: "CLOSED",
    field: `${ACTOR_NAMES[actor]} actor`,
    problem: `died too often: ${cause.message}`,
    remedy: "Look for the cause in the log, then start the process again.",
    cause,
  });
}

export interface ServingDump extends StateDump {
  readonly frontEnd: { readonly live: number; readonly queued: number };
}
async function dumpServing(runtime: Runtime, frontEnd: FrontEnd): Promise<ServingDump> {
  const { liveRequests: live, queuedRequests: queued } = frontEnd;
  return { frontEnd: { live, queued }, ...(await runtime.dump()) };
}

function startFrontEnd(runtime: Runtime, log: Log): FrontEnd {
  const { ends, plan, native } = runtime;
  const frontEnd = new FrontEnd({
    tables: ends.tables,
    slots: new RequestSlots(ends.tables),
    mailbox: ends.mailboxes[ACTOR_FRONT_END]!,
    outboxes: ends.outboxes,
    nowMs: ends.nowMs,
    counters: new CounterBlock(plan.counters, ACTOR_FRONT_END),
    log,
  });
  runtime.supervisor.on("restarted", (actor) => frontEnd.actorRestarted(actor));
  native.wakeOpen(plan.wakeIds[ACTOR_FRONT_END]!, frontEnd.wake, true);
  frontEnd.start();
  return frontEnd;
}

/** null where others than this machine could call it, unless that is wanted. */
function cacheReset(
  { http, connector }: ApplicationOptions,
  runtime: Runtime,
  frontEnd: FrontEnd,
): RoutePorts["resetCache"] {
  if (http === null || !(http.adminRoutes ?? isLoopback(http.host))) return null;
  const reset = new CacheReset({
    frontEnd,
    resetPool: (options) => runtime.resetPool(options),
    nowMs: runtime.ends.nowMs,
    timeoutMs: connector.saveTimeoutMs,
  });
  return (request) => reset.reset(request);
}

function publishEvents(
  { kvEvents }: Runtime,
  publisher: KvEventPublisher | undefined,
): KvEventPublishing | null {
  return kvEvents === null || publisher === undefined
    ? null
    : new KvEventPublishing(kvEvents, publisher);
}

function startMetrics(
  runtime: Runtime,
  native: NativeBinding,
  model: PreparedModel,
  events: KvEventPublishing | null,
): Metrics {
  const metrics = new Metrics();
  const counters = new CounterBlock(runtime.plan.counters, ACTOR_FRONT_END);
  metrics.addSource({
    modelName: model.modelName,
    engine: "0",
    counters: runtime.plan.counters,
    refresh: () => {
      const pool = native.engineStatistics(runtime.engineId);
      counters.set(GAUGES.poolBytes, pool.bytesUsed);
      counters.set(GAUGES.poolCapacityBytes, pool.bytesMax);
      counters.set(GAUGES.poolKeys, pool.keys);
      counters.set(COUNTERS.poolEvictions, pool.evictions);
      counters.set(COUNTERS.kvEventsPublished, events?.feed.published ?? 0);
      counters.set(COUNTERS.kvEventsLost, events?.feed.lost ?? 0);
      counters.set(GAUGES.engineOpen, pool.state === "open" ? 1 : 0);
      const { membership } = runtime.membership.status();
      counters.set(GAUGES.poolClosed, membership === "closed" ? 1 : 0);
      counters.set(GAUGES.engineHungCalls, pool.hungCalls);
      counters.set(COUNTERS.engineReopenings, pool.reopenings);
    },
  });
  return metrics;
}
