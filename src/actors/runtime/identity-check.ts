import { NONE } from "../../blocks/layout.ts";
import { compareIdentities } from "../../connector/identity/compare.ts";
import type { IdentityComparison, IdentityDifference } from "../../connector/identity/compare.ts";
import { decodeIdentity, encodeIdentity } from "../../connector/identity/identity-value.ts";
import type { PoolIdentity } from "../../connector/identity/identity.ts";
import {
  MEMBERSHIP_CLOSED,
  MEMBERSHIP_NAMES,
  MEMBERSHIP_OPEN,
  MEMBERSHIP_PAUSED,
  MEMBERSHIP_UNKNOWN,
} from "../../connector/membership.ts";
import type { MembershipName } from "../../connector/membership.ts";
import type { EngineStatus } from "../../native/binding.ts";
import { EngineCode } from "../../store/engine.ts";
import type { EngineCalls } from "../../store/engine-calls.ts";
import type { TraceWriter } from "../../trace/events.ts";
import type { Log } from "../step.ts";
import { type IdentityIntervals, IdentityRetries } from "./identity-intervals.ts";
import { IdentityLog } from "./identity-log.ts";

export interface IdentityCheckOptions {
  readonly calls: Pick<EngineCalls, "getValue" | "putValue">;
  readonly key: string;
  readonly identity: PoolIdentity;
  /** Bound of each call. */
  readonly timeoutMs: number;
  /** Milliseconds of a clock that only goes forward. */
  readonly nowMs: () => number;
  readonly intervals: IdentityIntervals;
  /** Runs `action` after `delayMs` unless the returned function is called first; must not keep the process alive. */
  readonly after: (delayMs: number, action: () => void) => () => void;
  /** Tells the scheduler side: a MEMBERSHIP_ number, PAUSED amid a reset. */
  readonly publish: (membership: number) => void;
  readonly trace: TraceWriter;
  readonly log: Log;
}

/** Where this member stands, JSON-able. */
export interface MembershipStatus {
  readonly membership: MembershipName;
  /** What keeps the pool closed; empty unless it is. */
  readonly differences: readonly IdentityDifference[];
  /** Why nothing is shared with the member that published, though nothing is wrong; empty when something may be. */
  readonly keyDifferences: readonly IdentityDifference[];
}

const AGREED: IdentityComparison = { keys: [], bytes: [] };

/**
 * Publishes this member's identity unless one is there, and compares: when the engine opens (again), then at `intervals`. Lives on the
 * runtime's thread. What a member that starts at the same time does is decided by the pool: both read what was stored first.
 */
export class IdentityCheck {
  readonly #options: IdentityCheckOptions;
  readonly #value: Uint8Array;
  readonly #log: IdentityLog;
  readonly #retries: IdentityRetries;
  #membership = MEMBERSHIP_UNKNOWN;
  #compared = AGREED;
  #engineOpen = false;
  /** Number of the engine's last opening, and of the one that the check under way began after. */
  #opening = 0;
  #checkedOpening = 0;
  #checking: Promise<void> | undefined;
  #cancelNext: (() => void) | undefined;
  #paused = false;
  #closed = false;

  constructor(options: IdentityCheckOptions) {
    this.#options = options;
    this.#value = encodeIdentity(options.identity);
    this.#log = new IdentityLog(options.key, options.log);
    this.#retries = new IdentityRetries(options.intervals, options.nowMs);
  }

  status(): MembershipStatus {
    return {
      membership: MEMBERSHIP_NAMES[this.#membership] ?? "unknown",
      differences: this.#membership === MEMBERSHIP_CLOSED ? this.#compared.bytes : [],
      keyDifferences: this.#compared.keys,
    };
  }

  /** A reset is under way: until `resume` the scheduler side neither looks up nor saves. */
  pause(): void {
    this.#paused = true;
    this.#publish();
  }
  resume(): void {
    this.#paused = false;
    this.#publish();
  }

  /** The engine's state, now and after each change. A pool that was lost may come back with other members in it. */
  engineChanged({ state, reopenings }: Pick<EngineStatus, "state" | "reopenings">): void {
    const told = this.#engineOpen && reopenings === this.#opening;
    this.#engineOpen = state === "open";
    if (this.#engineOpen && told) return;
    // Also when it was lost and open again between two looks.
    this.#become(MEMBERSHIP_UNKNOWN);
    if (!this.#engineOpen) return;
    this.#opening = reopenings;
    this.#retries.settled();
    // A check that began before the loss speaks of the pool that was lost.
    void (this.#checking === undefined ? this.check() : this.checkAnew());
  }

  /** Resolves when an answer is there, or after `timeoutMs`; at once while the engine is not open. Never rejects. */
  async settle(timeoutMs: number): Promise<void> {
    if (this.#checking === undefined || !this.#engineOpen) return;
    await this.#within(timeoutMs, this.#answered());
  }
  async #within(timeoutMs: number, done: Promise<void>): Promise<void> {
    let cancel = (): void => undefined;
    const late = new Promise<void>((resolve) => {
      cancel = this.#options.after(timeoutMs, resolve);
    });
    await Promise.race([done, late]);
    cancel();
  }
  async #answered(): Promise<void> {
    while (this.#checking !== undefined && this.#membership === MEMBERSHIP_UNKNOWN)
      await this.#checking;
  }

  /** Reads and compares now; calls at the same time share one check. Never rejects. */
  check(): Promise<void> {
    // An engine that is closed takes no call.
    if (this.#closed) return Promise.resolve();
    this.#checking ??= this.#check().finally(() => {
      this.#checking = undefined;
    });
    return this.#checking;
  }

  /** For whoever knows of a change: a check that began before may not have seen it. Waits at most `timeoutMs` for it. */
  async checkAnew(timeoutMs = Infinity): Promise<void> {
    const checked = (async () => {
      await this.#checking;
      await this.check();
    })();
    await (timeoutMs === Infinity ? checked : this.#within(timeoutMs, checked));
  }

  close(): void {
    this.#closed = true;
    this.#cancelNext?.();
  }

  async #check(): Promise<void> {
    this.#cancelNext?.();
    this.#cancelNext = undefined;
    this.#checkedOpening = this.#opening;
    const settled = await this.#readOrPublish();
    if (this.#closed) return;
    const delayMs = settled ? this.#retries.settled() : this.#retries.failed();
    this.#cancelNext = this.#options.after(delayMs, () => void this.check());
  }

  /** False: look again soon. Without an answer what was known stays, because an engine that is lost says so by its state. */
  async #readOrPublish(): Promise<boolean> {
    const { calls, key, timeoutMs } = this.#options;
    const read = await calls.getValue(key, timeoutMs);
    if (!read.ok) return this.#unanswered(read.code, read.text);
    if (read.value !== null) return this.#compare(read.value);
    if (this.#closed) return true;
    const put = await calls.putValue(key, this.#value, timeoutMs);
    if (this.#closed) return true;
    // Of two members that found nothing, one has stored: both go by what is there.
    const again = await calls.getValue(key, timeoutMs);
    if (!again.ok) return this.#unanswered(again.code, again.text);
    if (again.value !== null) return this.#compare(again.value);
    // It is being written, by us or by another; or the failure says nothing about the room there is.
    if (put.ok ? put.value === "present" : put.code !== EngineCode.NO_AVAILABLE_HANDLE)
      return this.#unanswered(
        put.ok ? EngineCode.OBJECT_NOT_FOUND : put.code,
        "it is not there yet",
      );
    if (!put.ok) this.#log.unpublished(put.code, put.text);
    this.#apply(AGREED);
    // What could not be put now is put as soon as there is room: an owner may be on its way.
    return put.ok;
  }

  #unanswered(code: number, problem: string): false {
    const waits = this.#engineOpen && this.#membership === MEMBERSHIP_UNKNOWN;
    this.#log.unanswered(code, problem, waits);
    return false;
  }

  #compare(value: Uint8Array): true {
    const read = decodeIdentity(value);
    if (read.ok) this.#apply(compareIdentities(this.#options.identity, read.identity));
    else {
      this.#log.unreadable(read.problem);
      this.#apply(AGREED);
    }
    return true;
  }

  #apply(compared: IdentityComparison): void {
    // The answer may be older than the loss of the engine.
    if (!this.#engineOpen || this.#closed || this.#checkedOpening !== this.#opening) return;
    this.#compared = compared;
    this.#log.compared(compared);
    this.#become(compared.bytes.length > 0 ? MEMBERSHIP_CLOSED : MEMBERSHIP_OPEN);
  }

  #become(membership: number): void {
    const before = this.#membership;
    if (before === membership) return;
    const { trace } = this.#options;
    this.#membership = membership;
    this.#publish();
    if (membership === MEMBERSHIP_CLOSED)
      trace.record("poolClosed", NONE, NONE, this.#compared.bytes.length, NONE);
    else if (membership === MEMBERSHIP_OPEN)
      trace.record("poolOpened", NONE, NONE, this.#compared.keys.length, NONE);
    if (before === MEMBERSHIP_CLOSED && membership === MEMBERSHIP_OPEN) this.#log.openAgain();
  }

  #publish(): void {
    this.#options.publish(this.#paused ? MEMBERSHIP_PAUSED : this.#membership);
  }
}
