import type { Logger } from "pino";
import type { ConnectorConfig } from "../../../config/connector-config.ts";
import { HASH_ALGORITHMS, type KvCacheConfig } from "../../../config/kv-cache-config.ts";
import { Tables } from "../../../blocks/tables.ts";
import type { NativeBinding } from "../../../native/binding.ts";
import { attachNativeChannel } from "../../../store/native-channel.ts";
import { COUNTERS, type CounterBlock } from "../../../trace/counters.ts";
import { LOOKUP_RPC_OUTCOMES } from "../../../trace/families.ts";
import { ForeignLookups } from "../../lookup/foreign/foreign-lookups.ts";
import { readMembership } from "../../mismatch-words.ts";
import type { LookupRpcPlan, RuntimePlan } from "../../plan.ts";
import type { RemoteLookups } from "../../step.ts";
import type { ResetAnswered, ResetRequest } from "../../supervision/thread-messages.ts";
import type { ThreadEnds } from "../thread-ends.ts";
import { LookupClient } from "./lookup-client.ts";
import { LookupServer } from "./lookup-server.ts";
import { ResetRequests } from "./reset-requests.ts";
import { claimSocketPath } from "./socket-path.ts";

/** The lookup socket in the lookup actor's thread. */
export interface LookupRpcThread {
  /** Of a client: whom the lookup actor asks. */
  readonly remote: RemoteLookups | undefined;
  /** Of a server: questions are taken from now on. Rejects when the socket cannot be opened. */
  readonly opened: Promise<void>;
  /** The runtime's thread has answered a request that was sent with `askRuntime`. */
  resetAnswered(answer: ResetAnswered): void;
  close(): void;
}

export interface LookupRpcParts {
  readonly plan: RuntimePlan;
  readonly connector: ConnectorConfig;
  readonly kvCache: KvCacheConfig;
  readonly ends: ThreadEnds;
  readonly native: NativeBinding;
  readonly epoch: number;
  readonly logger: Logger;
  readonly counters: CounterBlock;
  /** Starts a turn of the lookup actor's host. */
  readonly wake: () => void;
  /** Sends to the runtime's thread. */
  readonly askRuntime: (request: ResetRequest) => void;
}

export function openLookupRpc(rpc: LookupRpcPlan, parts: LookupRpcParts): LookupRpcThread {
  if (rpc.role === "server") return serveLookups(rpc, parts);
  const { connector, kvCache, ends, logger, wake } = parts;
  const client = new LookupClient({
    path: rpc.path,
    digestBytes: HASH_ALGORITHMS[kvCache.hashAlgorithm].digestBytes,
    timeoutMs: connector.lookupTimeoutMs,
    nowMs: ends.nowMs,
    log: logger,
    wake,
  });
  return {
    remote: client,
    opened: Promise.resolve(),
    // A client asks for no reset.
    resetAnswered: () => undefined,
    close: () => client.close(),
  };
}

type ServerPlan = Extract<LookupRpcPlan, { role: "server" }>;

/** vLLM's LookupKeyServer: this process answers schedulers of others. */
function serveLookups(rpc: ServerPlan, parts: LookupRpcParts): LookupRpcThread {
  const { connector, ends, native, logger, counters, askRuntime } = parts;
  const foreign = new ForeignHost(rpc, parts);
  const { saveTimeoutMs } = connector;
  const resets = new ResetRequests({ post: askRuntime, saveTimeoutMs, nowMs: ends.nowMs });
  let closed = false;
  let server: LookupServer | undefined;
  const open = async (): Promise<void> => {
    // A predecessor's socket is gone, but its file may still be there.
    await claimSocketPath(rpc.path);
    const opened = await LookupServer.open({
      path: rpc.path,
      lookup: (request, answered) =>
        connector.capacityOnly
          ? answered({ hitTokens: 0, tails: [] }, null)
          : foreign.ask(request, answered),
      reset: () => resets.ask(),
      count: (outcome) =>
        counters.add(COUNTERS.lookupRpc + LOOKUP_RPC_OUTCOMES.indexOf(outcome), 1),
      nowMs: ends.nowMs,
      log: logger,
    });
    if (closed) opened.close();
    else server = opened;
  };
  return {
    remote: undefined,
    opened: open(),
    resetAnswered: (answer) => resets.answered(answer),
    close: () => {
      closed = true;
      resets.close();
      server?.close();
      foreign.close();
      native.wakeClose(rpc.wakeId);
    },
  };
}

/** Runs the lookups of other processes on this thread's event loop, beside the lookup actor's own host. */
class ForeignHost {
  readonly #foreign: ForeignLookups;
  readonly #nowMs: () => number;
  #stepMs: number;
  #soon = false;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(rpc: ServerPlan, parts: LookupRpcParts) {
    const { plan, connector, kvCache, ends, native, epoch, logger, counters } = parts;
    const { words, shape, channelId } = rpc.channel;
    const control = new Int32Array(plan.control);
    this.#nowMs = ends.nowMs;
    this.#stepMs = ends.nowMs();
    this.#foreign = new ForeignLookups(
      {
        tables: new Tables(rpc.tables),
        rules: plan.rules,
        keySpace: rpc.worker,
        metrics: counters,
        digestBytes: HASH_ALGORITHMS[kvCache.hashAlgorithm].digestBytes,
        timeoutMs: connector.lookupTimeoutMs,
        readMembership: () => readMembership(control),
      },
      {
        epoch,
        nowMs: () => this.#stepMs,
        random: Math.random,
        log: logger,
        engine: attachNativeChannel({
          words: new Int32Array(words),
          shape,
          binding: native,
          channelId,
          epoch,
        }),
      },
    );
    native.wakeOpen(rpc.wakeId, () => this.#step(), false);
    // Takes what the engine still had of a predecessor.
    this.#step();
  }

  ask(...question: Parameters<ForeignLookups["ask"]>): void {
    this.#stepMs = this.#nowMs();
    this.#foreign.ask(...question);
    // Not from within an answer: the step that gave it may not be over.
    this.#stepSoon();
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  #stepSoon(): void {
    if (!this.#soon) setImmediate(() => this.#step());
    this.#soon = true;
  }

  #step(): void {
    if (this.#closed) return;
    this.#soon = false;
    clearTimeout(this.#timer);
    this.#stepMs = this.#nowMs();
    const nextMs = this.#foreign.step();
    if (nextMs <= this.#stepMs) this.#stepSoon();
    else if (nextMs !== Infinity)
      this.#timer = setTimeout(() => this.#step(), nextMs - this.#stepMs + 1);
  }
}
