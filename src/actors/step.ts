import type { Tables } from "../blocks/tables.ts";
import type { EngineChannel } from "../store/engine.ts";
import type { TraceWriter } from "../trace/events.ts";
import type { Message } from "./messages.ts";

/**
 * The one interface of all actors. An actor is a plain object with its own tables; a host gives it a thread (thread host) or
 * a turn (simulated host) and everything from outside: clock, randomness, log, outboxes, engine.
 */
export interface Actor {
  /**
   * Takes what is in the inbox and what the engine has completed, changes the actor's own tables in place and sends
   * messages. Bounded work: at most `inbox` holds now, then it returns and is called again. Returns the time (context.now
   * milliseconds) at which it wants to be called even if nothing arrives; Infinity for never. Never waits, allocates nothing
   * per block. A throw is a broken invariant: the host reports it and the supervisor restarts the actor under a new epoch.
   */
  step(inbox: Inbox, tables: Tables, context: ActorContext): number;

  /** True once after `stop` nothing is in flight. */
  idle(): boolean;

  /**
   * What a person needs who looks for what is stuck: plain data, read between two steps; it may allocate. `nowMs` is the host's
   * time, for ages. Every actor that a thread host runs has it.
   */
  inspect?(nowMs: number): ActorInspection;
}

export interface ActorInspection {
  /** Counted since this incarnation started, and gauges. */
  readonly counters: Readonly<Record<string, number>>;
  /** What is in hand, at most INSPECTED_MAX of each kind; plain data with readable names. */
  readonly inHand: Readonly<Record<string, unknown>>;
}
/** Requests, lookups or jobs that one inspection lists: enough to see what they wait for. The counters have them all. */
export const INSPECTED_MAX = 64;

export interface Inbox {
  /** Next message of this step, or null. */
  next(): Message | null;
}

export interface Log {
  debug(fields: object, text: string): void;
  info(fields: object, text: string): void;
  warn(fields: object, text: string): void;
  error(fields: object, text: string): void;
}

/** A lookup for another process to answer. */
export interface RemoteQuestion {
  /** The asker's number for it; it comes back with the answer. */
  readonly record: number;
  readonly tokens: number;
  /** HASH_STRIDE_WORDS for each hash, as the hash row has them; they belong to the receiver. */
  readonly hashes: Int32Array;
}
export interface RemoteAnswer {
  readonly record: number;
  /** OUTCOME_HIT: the other process has answered, with 0 tokens for a miss. Otherwise why it did not. */
  readonly outcome: number;
  readonly hitTokens: number;
  /** Group, and the tokens whose hash names its last block. As received: not checked. */
  readonly tails: readonly (readonly [group: number, tokens: number])[];
}
/** Never blocks. Every question is answered exactly once, in bounded time; the host calls the actor's step when there is an answer. */
export interface RemoteLookups {
  /** How many more questions it takes now. */
  room(): number;
  ask(question: RemoteQuestion): void;
  poll(): RemoteAnswer | null;
}

export interface ActorContext {
  /** This incarnation's number, from 1. */
  readonly epoch: number;
  /** Milliseconds, monotonic, from an arbitrary start; fixed during one step. */
  nowMs(): number;
  /** Uniform in [0, 1). */
  random(): number;
  readonly log: Log;
  readonly trace: TraceWriter;
  /** The actor's channel to the storage engine (lookup, loader, saver). */
  readonly engine: EngineChannel;
  /** Another process that answers lookups, where the configuration names one (lookup). Recorded. */
  readonly remoteLookups?: RemoteLookups | undefined;
  /**
   * Puts a message in another actor's mailbox; the host wakes the receiver once after the step. The mailboxes are sized as
   * the sum of what their senders may have in flight, so a full one is a broken invariant and throws. Where a receiver may
   * lag legitimately (front end), the sender asks `room` first.
   */
  send(actor: number, message: Message): void;
  room(actor: number): number;
  /** Atomics.load of REQUEST_LOOKUP_WORD of a slot: the only word of another actor that a step may poll. Recorded. */
  readLookup(slot: number): number;
  /** Atomics.load of CONTROL_MEMBERSHIP_WORD: a MEMBERSHIP_ number. Recorded. Absent: open. */
  readMembership?(): number;
  /**
   * Only where the thread may block: waits until the slot's REQUEST_LOOKUP_WORD differs from `seenWord`, and returns the
   * milliseconds that are left of `timeoutMs`, 0 when they are over. Recorded.
   */
  waitLookup?(slot: number, seenWord: number, timeoutMs: number): number;
  /** Synchronous block hashing through the addon (or its twin in the simulator); see NativeBinding.hashBlocks. */
  hashBlocks(
    tokenPage: number,
    hashPage: number,
    extrasPage: number,
    fromBlock: number,
    toBlock: number,
  ): number;
}
