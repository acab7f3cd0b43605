import type { Outboxes } from "../actors/hosts/outboxes.ts";
import { ACTOR_SCHEDULER } from "../actors/messages.ts";
import { MooncakeKvError, type ErrorCode } from "../errors.ts";

/** Questions in flight: the life-cycle share of the scheduler's mailbox holds them with room to spare. */
const TICKETS_MAX = 8;

interface Asked {
  readonly resolve: (blocks: number) => void;
  readonly reject: (error: Error) => void;
  readonly timer: NodeJS.Timeout;
}

/** Asks the scheduler to drop its local prefix cache and pairs the answers with the questions. */
export class LocalCacheDrops {
  readonly #outboxes: Outboxes;
  readonly #timeoutMs: number;
  readonly #asked = new Map<number, Asked>();
  #lastTicket = 0;
  #closed = false;

  constructor(outboxes: Outboxes, timeoutMs: number) {
    this.#outboxes = outboxes;
    this.#timeoutMs = timeoutMs;
  }

  /** Resolves to the number of dropped blocks. Throws CAPACITY, CLOSED or TIMEOUT. */
  ask(): Promise<number> {
    if (this.#closed) return Promise.reject(failure("CLOSED", "the front end is closed"));
    if (this.#asked.size >= TICKETS_MAX) {
      return Promise.reject(failure("CAPACITY", "too many of these questions are in flight"));
    }
    const ticket = (this.#lastTicket = (this.#lastTicket + 1) | 0);
    return new Promise<number>((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#asked.delete(ticket);
        reject(failure("TIMEOUT", `the scheduler did not answer within ${this.#timeoutMs} ms`));
      }, this.#timeoutMs);
      this.#asked.set(ticket, { resolve, reject, timer });
      this.#send(ticket);
    });
  }

  /** False when nobody waits for this ticket. */
  answer(ticket: number, blocks: number): boolean {
    const asked = this.#asked.get(ticket);
    if (asked === undefined) return false;
    clearTimeout(asked.timer);
    this.#asked.delete(ticket);
    asked.resolve(blocks);
    return true;
  }

  /** After the scheduler's restart: its predecessor may have taken the question with it. */
  askAgain(): void {
    for (const ticket of this.#asked.keys()) this.#send(ticket);
  }

  close(): void {
    this.#closed = true;
    for (const { reject, timer } of this.#asked.values()) {
      clearTimeout(timer);
      reject(failure("CLOSED", "the front end was closed"));
    }
    this.#asked.clear();
  }

  #send(ticket: number): void {
    this.#outboxes.send(ACTOR_SCHEDULER, { kind: "dropLocalCache", ticket });
    this.#outboxes.flush();
  }
}

function failure(code: ErrorCode, problem: string): MooncakeKvError {
  return new MooncakeKvError({
    code,
    field: "dropLocalCache",
    problem,
    remedy: "Try again once the server is healthy.",
  });
}
