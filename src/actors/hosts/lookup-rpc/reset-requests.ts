import type { ResetAnswered, ResetRequest } from "../../supervision/thread-messages.ts";

/** Beyond save_timeout_ms: the identity is published anew, and both threads may be busy. */
const EXTRA_MS = 7_000;

export interface ResetRequestOptions {
  /** Sends to the runtime's thread. */
  readonly post: (request: ResetRequest) => void;
  /** save_timeout_ms: what emptying the pool may take. */
  readonly saveTimeoutMs: number;
  readonly nowMs: () => number;
}

/**
 * Resets that the lookup socket asks for, done by the runtime's thread: only that one pauses saves and lookups, publishes the
 * identity anew and tells KV events. One at a time, in turn, as vLLM's server takes them; each is over by its deadline, whether
 * or not that thread answers.
 */
export class ResetRequests {
  readonly #options: ResetRequestOptions;
  #nextId = 0;
  #last: Promise<unknown> = Promise.resolve();
  #waiting: { readonly id: number; readonly answer: (acknowledged: boolean) => void } | undefined;
  #closed = false;

  constructor(options: ResetRequestOptions) {
    this.#options = options;
  }

  /** True when the pool is empty. Never rejects. */
  ask(): Promise<boolean> {
    const { nowMs, saveTimeoutMs } = this.#options;
    const deadlineMs = nowMs() + saveTimeoutMs + EXTRA_MS;
    const answer = this.#last.then(() => this.#ask(deadlineMs));
    this.#last = answer;
    return answer;
  }

  /** An answer that comes too late is nobody's. */
  answered({ id, acknowledged }: ResetAnswered): void {
    if (this.#waiting?.id === id) this.#waiting.answer(acknowledged);
  }

  /** The thread stops: whatever waits has failed. */
  close(): void {
    this.#closed = true;
    this.#waiting?.answer(false);
  }

  #ask(deadlineMs: number): Promise<boolean> {
    const { nowMs, post } = this.#options;
    const leftMs = deadlineMs - nowMs();
    if (this.#closed || leftMs <= 0) return Promise.resolve(false);
    const id = this.#nextId++;
    return new Promise((resolve) => {
      const timer = setTimeout(() => answer(false), leftMs);
      const answer = (acknowledged: boolean): void => {
        clearTimeout(timer);
        this.#waiting = undefined;
        resolve(acknowledged);
      };
      this.#waiting = { id, answer };
      post({ request: "resetPool", id, deadlineMs });
    });
  }
}
