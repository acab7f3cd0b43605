import type { FrontEndLimits } from "./front-end-types.ts";
import type { LiveRequest } from "./live-request.ts";

/** Requests that wait for a slot: first in, first out, bounded in number and in time. */
export class WaitingLine {
  readonly #limits: FrontEndLimits;
  readonly #onTimeout: (live: LiveRequest) => void;
  readonly #waiting: LiveRequest[] = [];

  /** `onTimeout` gets a request that has waited too long, already taken out. */
  constructor(limits: FrontEndLimits, onTimeout: (live: LiveRequest) => void) {
    this.#limits = limits;
    this.#onTimeout = onTimeout;
  }

  get length(): number {
    return this.#waiting.length;
  }
  first(): LiveRequest | undefined {
    return this.#waiting[0];
  }

  /** False when the line is full. */
  push(live: LiveRequest): boolean {
    if (this.#waiting.length >= this.#limits.queuedRequestsMax) return false;
    this.#waiting.push(live);
    live.queueTimer = setTimeout(() => {
      if (this.remove(live)) this.#onTimeout(live);
    }, this.#limits.queueTimeoutMs);
    return true;
  }

  shift(): LiveRequest | undefined {
    const live = this.#waiting.shift();
    clearTimeout(live?.queueTimer);
    return live;
  }

  remove(live: LiveRequest): boolean {
    const at = this.#waiting.indexOf(live);
    if (at < 0) return false;
    clearTimeout(live.queueTimer);
    this.#waiting.splice(at, 1);
    return true;
  }

  clear(): LiveRequest[] {
    for (const live of this.#waiting) clearTimeout(live.queueTimer);
    return this.#waiting.splice(0);
  }
}
