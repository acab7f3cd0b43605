import { NONE } from "../../blocks/layout.ts";
import { SlotLinks, type SlotList } from "./slot-list.ts";

/** States of a request, published (with the generation) in REQUEST_STATUS for a successor of a dead scheduler. */
export const STATE_FREE = 0;
export const STATE_WAITING = 1;
export const STATE_PARKED_HASHES = 2;
export const STATE_PARKED_LOOKUP = 3;
export const STATE_PARKED_LOAD = 4;
/** Holds loaded blocks and waits for a place among the running. */
export const STATE_LOADED = 5;
export const STATE_RUNNING = 6;
/** `requestFinished` was sent; something of the request is still in flight. */
export const STATE_DRAINING = 7;
/** `slotReleased` was sent. */
export const STATE_RELEASED = 8;

/** By STATE_ number, for people. */
export const STATE_NAMES = [
  "free",
  "waiting",
  "parkedHashes",
  "parkedLookup",
  "parkedLoad",
  "loaded",
  "running",
  "draining",
  "released",
] as const;

/** `why` of the trace events requestParked and requestResumed. */
export const PARKED_FOR_HASHES = 1;
export const PARKED_FOR_LOOKUP = 2;
export const PARKED_FOR_LOAD = 3;

/** REQUEST_STATUS: a status word of another generation says nothing about this request. */
export function statusWord(generation: number, state: number): number {
  return ((generation & 0xffffff) << 8) | state;
}
/** State of `generation` in a status word; STATE_FREE when the word is of another generation. */
export function stateOfStatus(word: number, generation: number): number {
  return word >>> 8 === (generation & 0xffffff) ? word & 0xff : STATE_FREE;
}

/** The scheduler's private tables: one entry a slot. */
export class RequestStates {
  readonly slots: number;
  readonly state: Uint8Array;
  readonly generation: Int32Array;
  readonly flags: Int32Array;
  readonly promptTokens: Int32Array;
  readonly tokensMax: Int32Array;
  readonly outputTokens: Int32Array;
  /** Tokens whose KV is in the request's blocks. */
  readonly computedTokens: Int32Array;
  /** Blocks in the row of each group. */
  readonly blocks: Int32Array;
  /** Leading blocks that were offered to the local prefix cache. */
  readonly cachedBlocks: Int32Array;
  /** Hash blocks of the row whose digests are known to be there. */
  readonly hashedBlocks: Int32Array;
  readonly hashPending: Uint8Array;
  /** Block ids (all groups) that admission promised and the row does not hold yet. */
  readonly promisedBlocks: Int32Array;
  readonly localTokens: Int32Array;
  readonly poolTokens: Int32Array;
  readonly preemptions: Int32Array;
  /** 1 until the first admission: what came from where is reported of that one alone. */
  readonly neverAdmitted: Uint8Array;
  /** 1: goes to the front of the waiting queue when its wait is over. */
  readonly first: Uint8Array;
  readonly abortPending: Uint8Array;
  /** Number of the scheduling step that the request is part of, while it is in flight. */
  readonly inStep: Int32Array;
  /** Load in flight: its job, the tokens that will be there, the block ids that it fills. */
  readonly loadJob: Int32Array;
  readonly loadTokens: Int32Array;
  readonly loadBlocks: Int32Array;
  /** How often a later request was admitted before this one, because its load had to wait. */
  readonly overtaken: Int32Array;
  readonly parkedUntilMs: Float64Array;
  /** When the request entered its present state. */
  readonly sinceMs: Float64Array;

  readonly waiting: SlotList;
  readonly parkedHashes: SlotList;
  readonly parkedLookup: SlotList;
  readonly parkedLoad: SlotList;
  readonly loaded: SlotList;
  /** In order of admission: the tail is the last-come and is preempted first. */
  readonly running: SlotList;
  readonly draining: SlotList;

  constructor(slots: number) {
    const int32 = (): Int32Array => new Int32Array(slots);
    const uint8 = (): Uint8Array => new Uint8Array(slots);
    this.slots = slots;
    this.state = uint8();
    this.generation = int32().fill(NONE);
    this.flags = int32();
    this.promptTokens = int32();
    this.tokensMax = int32();
    this.outputTokens = int32();
    this.computedTokens = int32();
    this.blocks = int32();
    this.cachedBlocks = int32();
    this.hashedBlocks = int32();
    this.hashPending = uint8();
    this.promisedBlocks = int32();
    this.localTokens = int32();
    this.poolTokens = int32();
    this.preemptions = int32();
    this.neverAdmitted = uint8();
    this.first = uint8();
    this.abortPending = uint8();
    this.inStep = int32();
    this.loadJob = int32();
    this.loadTokens = int32();
    this.loadBlocks = int32();
    this.overtaken = int32();
    this.parkedUntilMs = new Float64Array(slots);
    this.sinceMs = new Float64Array(slots);
    const links = new SlotLinks(slots);
    this.waiting = links.newList();
    this.parkedHashes = links.newList();
    this.parkedLookup = links.newList();
    this.parkedLoad = links.newList();
    this.loaded = links.newList();
    this.running = links.newList();
    this.draining = links.newList();
  }

  /** Prompt and answer so far: the tokens that are in the token row. */
  knownTokens(slot: number): number {
    return this.promptTokens[slot]! + this.outputTokens[slot]!;
  }

  /** Requests that were taken and not released yet. */
  live(): number {
    return (
      this.waiting.size +
      this.parkedHashes.size +
      this.parkedLookup.size +
      this.parkedLoad.size +
      this.loaded.size +
      this.running.size +
      this.draining.size
    );
  }

  reset(slot: number): void {
    for (const words of [
      this.outputTokens,
      this.computedTokens,
      this.blocks,
      this.cachedBlocks,
      this.hashedBlocks,
      this.promisedBlocks,
      this.localTokens,
      this.poolTokens,
      this.preemptions,
      this.inStep,
      this.loadTokens,
      this.loadBlocks,
      this.overtaken,
      this.hashPending,
      this.first,
      this.abortPending,
    ])
      words[slot] = 0;
    this.neverAdmitted[slot] = 1;
    this.loadJob[slot] = NONE;
  }

  listOf(state: number): SlotList | undefined {
    switch (state) {
      case STATE_WAITING:
        return this.waiting;
      case STATE_PARKED_HASHES:
        return this.parkedHashes;
      case STATE_PARKED_LOOKUP:
        return this.parkedLookup;
      case STATE_PARKED_LOAD:
        return this.parkedLoad;
      case STATE_LOADED:
        return this.loaded;
      case STATE_RUNNING:
        return this.running;
      case STATE_DRAINING:
        return this.draining;
      default:
        return undefined;
    }
  }
}
