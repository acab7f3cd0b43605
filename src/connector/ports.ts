import type { Message } from "../actors/messages.ts";
import type { PageAllocator } from "../blocks/page-arena.ts";
import type { Tables } from "../blocks/tables.ts";
import { hitRules } from "../keys/coordinator/hit-rules.ts";
import type { HitRules } from "../keys/coordinator/hit-rules.ts";
import type { TraceWriter } from "../trace/events.ts";
import type { BlockPool } from "./hooks.ts";
import type { ConnectorSettings } from "./settings.ts";

export interface ConnectorLog {
  debug(fields: object, text: string): void;
  warn(fields: object, text: string): void;
}

/** What both sides get from outside. Everything is called from the side's own thread. */
export interface SidePorts {
  readonly tables: Tables;
  readonly settings: ConnectorSettings;
  readonly log: ConnectorLog;
  readonly trace: TraceWriter;
  /** Monotonic milliseconds; may stand still during one step. */
  nowMs(): number;
  /** Puts a message in an actor's mailbox; must not fail (mailboxes hold all that may be in flight). */
  send(actor: number, message: Message): void;
  /** Actors that were given up before these sides were made. Absent: none. */
  gone?(actor: number): boolean;
}

export interface SchedulerPorts extends SidePorts {
  /** Owner of the free list of `tables.blocks`: the scheduler side's thread. Rows of requests come from it too. */
  readonly blockPages: PageAllocator;
  readonly pool: BlockPool;
  /** What hits need. Absent: groups of attention that need all blocks, of equal spans. */
  readonly rules?: HitRules;
  /** Worker sides that have to report each job. At most RANKS_MAX. */
  readonly ranks: number;
  /** The caller's id of a request, for errors. */
  readonly requestName?: (slot: number) => string | undefined;
  /** Wakes every actor that has got a message since the last call. Where the host wakes after the step: nothing. */
  flushWakes(): void;
  /** Atomics.load of REQUEST_LOOKUP_WORD. */
  readLookup(slot: number): number;
  /**
   * Only where the thread may block: waits until the slot's REQUEST_LOOKUP_WORD differs from `seenWord` and returns the
   * milliseconds that are left of `timeoutMs`; 0 when they are over. Without it lookup_async false parks the request too.
   */
  readonly waitLookup?: (slot: number, seenWord: number, timeoutMs: number) => number;
  /** Whether this member may use the pool: a MEMBERSHIP_ number. Absent: open. */
  readonly readMembership?: () => number;
  /** Hashes blocks past the prompt (see NativeBinding.hashBlocks). Without it those are never saved nor looked up. */
  readonly hashBlocks?: (
    tokenPage: number,
    hashPage: number,
    extrasPage: number,
    fromBlock: number,
    toBlock: number,
  ) => number;
}

export function rulesOf(ports: Pick<SchedulerPorts, "rules" | "tables">): HitRules {
  const { groups, blockSize: spanTokens, hashBlockSize } = ports.tables.dimensions;
  return (
    ports.rules ??
    hitRules({
      groups: Array.from({ length: groups }, () => ({ kind: "full" as const, spanTokens })),
      hashBlockSize,
    })
  );
}

/** Late, duplicate and unknown messages, and what was left out for want of room. Plain numbers, read by metrics. */
export interface ConnectorCounters {
  /** Messages about a request or a job that is not there (any more). */
  staleMessages: number;
  /** Answers to lookups that had been given up. */
  lateLookups: number;
  lookupTimeouts: number;
  /** Lookups answered with ENGINE_DOWN without asking. */
  engineDownAnswers: number;
  loadTimeouts: number;
  saveTimeouts: number;
  failedLoads: number;
  /** Saves left for the next step: no job, no pages, or hashes not there yet. */
  postponedSaves: number;
  /** Boundary states not saved: no job, no pages, or no hash that names them. */
  droppedStates: number;
  /** Left out saves that were made after their request had ended; and those that were given up. */
  savesAfterEnd: number;
  lostSaves: number;
  /** Hits not offered because no load could be started: OUTCOME_BACK_PRESSURE. */
  loadBackPressure: number;
}

export function createCounters(): ConnectorCounters {
  return {
    staleMessages: 0,
    lateLookups: 0,
    lookupTimeouts: 0,
    engineDownAnswers: 0,
    loadTimeouts: 0,
    saveTimeouts: 0,
    failedLoads: 0,
    postponedSaves: 0,
    droppedStates: 0,
    savesAfterEnd: 0,
    lostSaves: 0,
    loadBackPressure: 0,
  };
}
