import { OUTCOME_ENGINE_DOWN, OUTCOME_ENGINE_ERROR, OUTCOME_TIMEOUT } from "../actors/messages.ts";
import type { TraceWriter } from "../trace/events.ts";
import { NONE } from "../blocks/layout.ts";
import type { ConnectorLog } from "./ports.ts";
import { ENGINE_FAILURES_MAX, PROBE_BACK_OFF_MAX_MS, PROBE_BACK_OFF_MIN_MS } from "./settings.ts";

/**
 * Whether the engine is worth asking. After three failed lookups, or three failed loads, in a row it counts as down: lookups
 * answer ENGINE_DOWN at once, except that one lookup at a time goes through as a probe, at growing distances. Loads have a
 * count of their own, because an engine may answer `exists` and still fail every `get`.
 */
export class EngineHealth {
  readonly #trace: TraceWriter;
  readonly #log: ConnectorLog;
  #lookupFailures = 0;
  #loadFailures = 0;
  #down = false;
  #backOffMs = PROBE_BACK_OFF_MIN_MS;
  #probeAtMs = 0;
  /** Slot whose lookup is the probe in flight, or NONE. */
  #probeSlot = NONE;

  constructor(trace: TraceWriter, log: ConnectorLog) {
    this.#trace = trace;
    this.#log = log;
  }

  get down(): boolean {
    return this.#down;
  }

  /** May this slot's lookup go to the engine? True for the one probe while the engine is down. */
  admits(slot: number, nowMs: number): boolean {
    if (!this.#down) return true;
    if (this.#probeSlot !== NONE || nowMs < this.#probeAtMs) return false;
    this.#probeSlot = slot;
    return true;
  }

  lookupSucceeded(): void {
    this.#lookupFailures = 0;
    if (!this.#down) return;
    this.#down = false;
    this.#loadFailures = 0;
    this.#probeSlot = NONE;
    this.#backOffMs = PROBE_BACK_OFF_MIN_MS;
    this.#trace.record("engineUp", NONE, NONE, 0, 0);
    this.#log.warn({}, "the storage engine answers again");
  }

  lookupFailed(slot: number, nowMs: number): void {
    this.#lookupFailures++;
    if (this.#down) {
      // Only the probe says something new; the others were asked before the engine was known to be down.
      if (this.#probeSlot !== slot) return;
      this.#probeSlot = NONE;
      this.#backOffMs = Math.min(this.#backOffMs * 2, PROBE_BACK_OFF_MAX_MS);
      this.#probeAtMs = nowMs + this.#backOffMs;
    } else if (this.#lookupFailures >= ENGINE_FAILURES_MAX) this.#fall(this.#lookupFailures, nowMs);
  }

  /** `outcome`: an OUTCOME_ code; only some of those that a failed load has speak against the engine. */
  loadEnded(succeeded: boolean, outcome: number, nowMs: number): void {
    if (succeeded) this.#loadFailures = 0;
    else if (
      outcome === OUTCOME_ENGINE_ERROR ||
      outcome === OUTCOME_ENGINE_DOWN ||
      outcome === OUTCOME_TIMEOUT
    )
      this.#loadFailed(nowMs);
  }
  #loadFailed(nowMs: number): void {
    this.#loadFailures++;
    if (!this.#down && this.#loadFailures >= ENGINE_FAILURES_MAX)
      this.#fall(this.#loadFailures, nowMs);
  }

  /** The slot's lookup was discarded: if it was the probe, the next lookup may be. */
  discarded(slot: number): void {
    if (this.#probeSlot === slot) this.#probeSlot = NONE;
  }

  #fall(failures: number, nowMs: number): void {
    this.#down = true;
    this.#probeAtMs = nowMs + this.#backOffMs;
    this.#trace.record("engineDown", NONE, NONE, failures, this.#backOffMs);
    this.#log.warn(
      { failures, probeMs: this.#backOffMs },
      "the storage engine fails: lookups answer ENGINE_DOWN until a probe succeeds",
    );
  }
}
