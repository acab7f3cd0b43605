import type { FrontEndLimits } from "./front-end-types.ts";
import type { LiveRequest } from "./live-request.ts";

export interface WaitingLineEvents {
  /** A request has waited too long; it is out of the line. */
  readonly timedOut: (live: LiveRequest) => void;
  readonly changed: (length: number) => void;
}

/** Requests that wait for a slot: first in, first out, bounded in number and in time. */
export class WaitingLine {
  readonly #limits: FrontEndLimits;
  readonly #events: WaitingLineEvents;
  readonly #waiting: LiveRequest[] = [];

  constructor(limits: FrontEndLimits, events: WaitingLineEvents) {
    this.#limits = limits;
    this.#events = events;
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
      if (this.remove(live)) this.#events.timedOut(live);
    }, this.#limits.queueTimeoutMs);
    this.#events.changed(this.length);
    return true;
  }

  shift(): LiveRequest | undefined {
    const live = this.#waiting[0];
    if (live !== undefined) this.remove(live);
    return live;
  }

  remove(live: LiveRequest): boolean {
    const at = this.#waiting.indexOf(live);
    if (at < 0) return false;
    clearTimeout(live.queueTimer);
    this.#waiting.splice(at, 1);
    this.#events.changed(this.length);
    return true;
  }

  clear(): LiveRequest[] {
    const all = this.#waiting.slice();
    for (const live of all) this.remove(live);
    return all;
  }
}
