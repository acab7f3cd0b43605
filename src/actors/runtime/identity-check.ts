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
import type { SizeWatch } from "./size-watch.ts";
import { type IdentityIntervals, IdentityRetries } from "./identity-intervals.ts";
import { IdentityLog } from "./identity-log.ts";

export interface IdentityCheckOptions {
  readonly calls: Pick<EngineCalls, "getValue" | "putValue" | "removeKey">;
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
  /** What else closes an open pool: values of another size under our keys. Absent: nothing. */
  readonly sizes?: Pick<SizeWatch, "differences" | "look">;
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
  /** Why it is unknown, once there was an answer that says so. The pool is asked again by itself. */
  readonly problem?: string;
}

const AGREED: IdentityComparison = { keys: [], bytes: [] };
/** There is a value, but its bytes do not come: for a while after its owner was lost, and for ever when its disk is broken. */
const NOT_READ: readonly number[] = [EngineCode.ENGINE_ERROR, EngineCode.CHECKSUM_MISMATCH];

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
  /** Why nothing is known; null: for want of an answer, or something is known. */
  #problem: string | null = null;
  /** Since when what lies under the key is no identity. */
  #unreadableSinceMs: number | null = null;
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
    const open = this.#membership === MEMBERSHIP_OPEN;
    const sizes = open ? (this.#options.sizes?.differences() ?? []) : [];
    return {
      membership: sizes.length > 0 ? "closed" : (MEMBERSHIP_NAMES[this.#membership] ?? "unknown"),
      differences: this.#membership === MEMBERSHIP_CLOSED ? this.#compared.bytes : sizes,
      keyDifferences: this.#compared.keys,
      ...(this.#problem === null || this.#membership !== MEMBERSHIP_UNKNOWN
        ? {}
        : { problem: this.#problem }),
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
    this.#problem = null;
    this.#unreadableSinceMs = null;
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
    let settled = false;
    try {
      settled = await this.#readOrPublish();
      if (!this.#closed) await this.#options.sizes?.look();
    } catch (error) {
      // Whatever the pool holds, the next look is made and the process lives.
      this.#log.failed(error);
      this.#unknownBecause(`looking at it failed: ${String(error)}`);
    }
    if (this.#closed) return;
    const delayMs = settled ? this.#retries.settled() : this.#retries.failed();
    this.#cancelNext = this.#options.after(delayMs, () => void this.check());
  }

  /** False: look again soon. Without an answer what was known stays, because an engine that is lost says so by its state. */
  async #readOrPublish(): Promise<boolean> {
    const { calls, key, timeoutMs } = this.#options;
    const read = await calls.getValue(key, timeoutMs);
    if (!read.ok) return this.#notRead(read.code, read.text);
    if (read.value !== null) return this.#compare(read.value, true);
    this.#unreadableSinceMs = null;
    return this.#closed || this.#publishIdentity();
  }

  async #publishIdentity(): Promise<boolean> {
    const { calls, key, timeoutMs } = this.#options;
    const put = await calls.putValue(key, this.#value, timeoutMs);
    if (this.#closed) return true;
    // Of two members that found nothing, one has stored: both go by what is there.
    const again = await calls.getValue(key, timeoutMs);
    if (!again.ok) return this.#unanswered(again.code, again.text);
    if (again.value !== null) return this.#compare(again.value, false);
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
    this.#problem ??= problem;
    return false;
  }

  #notRead(code: number, problem: string): boolean | Promise<boolean> {
    if (code === EngineCode.VALUE_TOO_LARGE) return this.#unreadable(problem, false, true);
    if (!NOT_READ.includes(code)) return this.#unanswered(code, problem);
    this.#unreadableSinceMs ??= this.#options.nowMs();
    return this.#replaceDueMs() > 0
      ? this.#unanswered(code, problem)
      : this.#unreadable(`its bytes do not come (${problem})`, false, true);
  }

  #compare(value: Uint8Array, mayReplace: boolean): boolean | Promise<boolean> {
    const read = decodeIdentity(value);
    if (!read.ok) return this.#unreadable(read.problem, read.otherFormat === true, mayReplace);
    this.#unreadableSinceMs = null;
    this.#apply(compareIdentities(this.#options.identity, read.identity));
    return true;
  }

  /**
   * What lies under the key is no identity. A member that was open knows what was there and puts it back at once; another one waits
   * until all such members have had their turn.
   */
  async #unreadable(problem: string, otherFormat: boolean, mayReplace: boolean): Promise<boolean> {
    const { calls, key, timeoutMs, nowMs } = this.#options;
    this.#unreadableSinceMs ??= nowMs();
    const dueMs = this.#replaceDueMs();
    const due = this.#membership === MEMBERSHIP_OPEN || dueMs <= 0;
    if (due && mayReplace && !otherFormat && !this.#closed) {
      // By force: no member has a use for it, and each look leases it anew.
      const removed = await calls.removeKey(key, timeoutMs, true);
      if (this.#closed) return true;
      if (removed.ok) {
        this.#log.replaced(problem);
        return this.#publishIdentity();
      }
    }
    this.#log.unreadable(problem, otherFormat, Math.max(0, dueMs));
    this.#unknownBecause(problem);
    return false;
  }

  /** Until a member that knows nothing replaces what is under the key; 0 or less: now. */
  #replaceDueMs(): number {
    const { intervals, nowMs } = this.#options;
    return (this.#unreadableSinceMs ?? nowMs()) + intervals.replaceAfterMs - nowMs();
  }

  #unknownBecause(problem: string): void {
    this.#problem = problem;
    this.#become(MEMBERSHIP_UNKNOWN);
  }

  #apply(compared: IdentityComparison): void {
    // The answer may be older than the loss of the engine.
    if (!this.#engineOpen || this.#closed || this.#checkedOpening !== this.#opening) return;
    this.#compared = compared;
    this.#problem = null;
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
