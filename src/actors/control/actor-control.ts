import { expose, releaseProxy, wrap, type Endpoint, type Remote } from "comlink";
import { MooncakeKvError } from "../../errors.ts";
import type { ActorInspection } from "../step.ts";

/**
 * A MessagePort of node:worker_threads. Not named by its type, because the declarations of this package are read by users
 * without @types/node.
 */
export interface ControlPort {
  unref(): void;
  close(): void;
}

/** What an actor's thread does for the runtime's thread when asked, between two steps. */
export interface ActorControl {
  /** pino's levels: trace, debug, info, warn, error, silent. */
  setLogLevel(level: string): void;
  /** The actor's counts since this incarnation started. */
  counters(): Readonly<Record<string, number>>;
  /** Takes a step soon, whether anything has come or not. */
  step(): void;
  /** What the actor has in hand, for a person. */
  inspect(): ActorInspection;
}

export const CONTROL_TIMEOUT_MS = 1000;

/** Answers control calls that come through `port`. Needs a turn of the calling thread's event loop for each. */
export function serveControl(port: ControlPort, control: ActorControl): void {
  expose(control, endpoint(port));
  // Whoever may ask is no reason to keep an actor's thread.
  port.unref();
}

/**
 * The runtime's end: control calls to one incarnation of an actor. Control calls go beside the mailboxes and tables, so that
 * they cannot disturb them; nothing in serving waits for one. Every call rejects with TIMEOUT after `timeoutMs` (the thread is
 * in a long step, or stuck) and with CLOSED when the thread has ended.
 */
export class ActorControlClient {
  readonly #name: string;
  readonly #timeoutMs: number;
  readonly #remote: Remote<ActorControl>;
  readonly #port: ControlPort;
  readonly #ended = new AbortController();

  /** `name` is the actor's, for errors. */
  constructor(port: ControlPort, name: string, timeoutMs: number = CONTROL_TIMEOUT_MS) {
    this.#name = name;
    this.#timeoutMs = timeoutMs;
    this.#port = port;
    this.#remote = wrap<ActorControl>(endpoint(port));
    port.unref();
  }

  setLogLevel(level: string): Promise<void> {
    return this.#within(() => this.#remote.setLogLevel(level));
  }
  counters(): Promise<Readonly<Record<string, number>>> {
    return this.#within(() => this.#remote.counters());
  }
  step(): Promise<void> {
    return this.#within(() => this.#remote.step());
  }
  inspect(): Promise<ActorInspection> {
    return this.#within(() => this.#remote.inspect());
  }

  /** The thread has ended: calls that wait and later ones reject. */
  close(): void {
    if (this.#ended.signal.aborted) return;
    this.#ended.abort();
    this.#remote[releaseProxy]();
    this.#port.close();
  }

  async #within<Result>(call: () => Promise<Result>): Promise<Result> {
    const { signal } = this.#ended;
    if (signal.aborted) throw this.#unanswered("CLOSED");
    let timer: NodeJS.Timeout | undefined;
    let onEnd: (() => void) | undefined;
    const failure = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(this.#unanswered("TIMEOUT")), this.#timeoutMs);
      onEnd = () => reject(this.#unanswered("CLOSED"));
      signal.addEventListener("abort", onEnd);
    });
    try {
      return await Promise.race([call(), failure]);
    } finally {
      clearTimeout(timer);
      if (onEnd !== undefined) signal.removeEventListener("abort", onEnd);
    }
  }

  #unanswered(code: "TIMEOUT" | "CLOSED"): MooncakeKvError {
    return new MooncakeKvError({
      code,
      field: `${this.#name} actor`,
      value: this.#timeoutMs,
      problem:
        code === "TIMEOUT"
          ? "did not answer a control call in time (milliseconds)"
          : "its thread ended before it answered a control call",
      remedy:
        code === "TIMEOUT"
          ? "Look at its mailbox and at the CPU: it is in a long step, or stuck."
          : "Ask its successor.",
    });
  }
}

/** Node's MessagePort is an event target as comlink wants it; only the types do not know. */
function endpoint(port: ControlPort): Endpoint {
  return port as unknown as Endpoint;
}
