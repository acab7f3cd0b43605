import type { TableDimensions } from "../../../blocks/tables.ts";
import type { ConnectorConfig } from "../../../config/connector-config.ts";
import type { HitRules } from "../../../keys/coordinator/hit-rules.ts";
import type { WorkerKeySpace } from "../../../store/key-spaces.ts";
import type { Message } from "../../messages.ts";
import type { SchedulerLimits } from "../../plan.ts";

/**
 * A recording is a text file with one JSON value a line: a header, then one line a step, then one end line. Step 0 is the
 * making of the actor. Everything that an incarnation got from outside is in it, so that it can be run again.
 */
export const RECORDING_VERSION = 3;

export interface RecordingHeader {
  readonly recording: typeof RECORDING_VERSION;
  /** An ACTOR_ number. */
  readonly actor: number;
  readonly epoch: number;
  readonly dimensions: TableDimensions;
  readonly connector: ConnectorConfig;
  readonly scheduler: SchedulerLimits | null;
  readonly workers: readonly WorkerKeySpace[];
  readonly rules: HitRules;
  /** Actors that had been given up when this one was made. */
  readonly gone: readonly number[];
  /** Of the engine channel; null for an actor without one. */
  readonly channel: { readonly batchSlots: number; readonly keysPerBatchMax: number } | null;
}

/** Words that changed: [table, first word, words ...] for each run; `table` is an index of TABLE_NAMES. */
export type TableChanges = readonly (readonly number[])[];

/** One answer of the context or the engine channel: a CALL_ number, then what it returned. */
export type RecordedCall = readonly (number | TableChanges)[];

/** What the actor gave away: a message to an actor, a batch to the engine, a lookup to another process. */
export type RecordedOutput =
  | readonly ["send", number, Message]
  | readonly [
      "submit",
      number,
      number,
      number,
      number,
      number,
      number,
      /** Entries. */ readonly number[],
    ]
  | readonly ["release", number]
  /** A lookup for another process: record, tokens, hashes as hexadecimal digits. */
  | readonly ["askRemote", number, number, string];

export interface RecordedStep {
  readonly step: number;
  readonly nowMs: number;
  readonly messages: readonly Message[];
  /** Of the shared tables, since the step before; its own among them. */
  readonly changes: TableChanges;
  readonly calls: readonly RecordedCall[];
  readonly outputs: readonly RecordedOutput[];
  /** null: never, or an actor that was only made. */
  readonly deadlineMs: number | null;
}

export interface RecordingEnd {
  readonly end: true;
  readonly steps: number;
  /** Steps that were not written because the disk was too slow or failed: what was written before is whole. */
  readonly stepsLost: number;
}

export const CALL_RANDOM = 1;
export const CALL_ROOM = 2;
/** Slot, lookup word, hit tokens, tail tokens of each group. */
export const CALL_READ_LOOKUP = 3;
/** Result, changes of the hash pages. */
export const CALL_HASH_BLOCKS = 4;
export const CALL_WAIT_LOOKUP = 5;
export const CALL_READ_MEMBERSHIP = 6;
export const CALL_ACQUIRE = 10;
/** Slot, status, tag, job, count, operation, epoch, microseconds, results ..., tiers ... (count of each). */
export const CALL_POLL = 11;
export const CALL_IN_FLIGHT = 12;
/** For each slot: slot, job, epoch. */
export const CALL_SUBMITTED = 13;
export const CALL_REMOTE_ROOM = 20;
/** Record, outcome, hit tokens, then group and tokens of each tail; nothing when there was no answer. */
export const CALL_REMOTE_POLL = 21;
