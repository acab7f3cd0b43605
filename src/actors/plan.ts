import type { ChannelShape } from "../blocks/layout.ts";
import type { TableBuffers } from "../blocks/tables.ts";
import type { ConnectorConfig } from "../config/connector-config.ts";
import type { KvCacheConfig } from "../config/kv-cache-config.ts";
import type { WorkerKeySpace } from "../store/key-spaces.ts";
import { ACTOR_COUNT } from "./messages.ts";

/** An engine channel as a worker attaches it: memory registered with the addon, opened by the runtime's thread. */
export interface ChannelPlan {
  readonly channelId: number;
  readonly words: SharedArrayBuffer;
  readonly shape: ChannelShape;
}

/**
 * Everything a worker thread needs, as plain data: made once by the runtime, posted to every actor thread.
 * `Actors` carries what single actors need on top (settings of the connector, the scheduler's limits, the model).
 */
export interface RuntimePlan {
  readonly tables: TableBuffers;
  /** Mailbox memory by ACTOR_ number. */
  readonly mailboxes: readonly SharedArrayBuffer[];
  /** Wake handle numbers (NativeBinding.wakeReserve) by ACTOR_ number. */
  readonly wakeIds: readonly number[];
  /** Control words of the supervisor; see CONTROL_ below. */
  readonly control: SharedArrayBuffer;
  readonly channels: { readonly [actor: number]: ChannelPlan };
  readonly hasherId: number;
  /** One worker side (rank) each: how its keys and addresses are formed. */
  readonly workers: readonly WorkerKeySpace[];
  /** Monotonic nanoseconds that count as time 0 of this runtime in all threads. */
  readonly originNanoseconds: number;
  /** Trace rings by ACTOR_ number, or null when tracing is off. */
  readonly traceRings: readonly SharedArrayBuffer[] | null;
  /** Counter blocks, one an actor (trace/counters.ts). */
  readonly counters: SharedArrayBuffer;
  readonly logLevel: string;
}

/** Limits of the built-in scheduler. */
export interface SchedulerLimits {
  /** Tokens computed in one scheduling step, prefill chunks and decodes together. */
  readonly tokensPerStepMax: number;
  /** Sequences that run at a time. */
  readonly sequencesMax: number;
  readonly endTokenIds: readonly number[];
  readonly contextTokensMax: number;
  /** False: no connector at all, only the local prefix cache (for comparison). */
  readonly pool: boolean;
}

/** What an actor thread gets as workerData, besides its epoch. */
export interface ActorThreadData {
  readonly plan: RuntimePlan;
  readonly actor: number;
  readonly connector: ConnectorConfig;
  readonly kvCache: KvCacheConfig;
  /** Present when the built-in scheduler runs. */
  readonly scheduler: SchedulerLimits | null;
}

/** Deaths of actor threads so far. Written by the supervisor (Atomics.add), read by thread hosts. */
export const CONTROL_DEATHS_WORD = 0;
/** Which thread has attached the connector (its threadId plus 1), 0 for none. Written by compareExchange of that thread. */
export const CONTROL_OWNER_WORD = 16;
/** Epoch of the model thread that is to end itself between two runs. Written by the supervisor, read by that thread. */
export const CONTROL_MODEL_EXIT_WORD = 32;
export const CONTROL_WORDS = 48;

/** What the senders of each mailbox may have in it at a time, as a sum with one term for each holder. */
export function mailboxCapacities(
  requestSlots: number,
  jobSlots: number,
  stepSequencesMax: number,
  ranks: number,
): number[] {
  const lifeCycle = 64; // restarts, stop, tickets
  const capacities: number[] = Array.from({ length: ACTOR_COUNT }, () => lifeCycle);
  const [scheduler, lookup, loader, saver, model, frontEnd] = [0, 1, 2, 3, 4, 5];
  // Per slot: addRequest, abortRequest, hashed, and lookupDone of one live and two discarded attempts. Per job and rank: a
  // report, and its repetition by a restarted actor. Two answers of the model.
  capacities[scheduler] = lifeCycle + 6 * requestSlots + 2 * ranks * jobSlots + 2;
  // Per slot: hashRequest, lookup and discardLookup of up to three attempts.
  capacities[lookup] = lifeCycle + 7 * requestSlots;
  // Per job: cancelLoad, and of each rank load or save, once more after a restart.
  capacities[loader] = lifeCycle + (2 * ranks + 1) * jobSlots;
  capacities[saver] = lifeCycle + 2 * ranks * jobSlots;
  capacities[model] = lifeCycle + 2;
  // Per slot: requestFinished and slotReleased; tokens of 64 steps that the front end has not read yet.
  capacities[frontEnd] = lifeCycle + 2 * requestSlots + 64 * Math.max(1, stepSequencesMax);
  return capacities.map((capacity) => 2 ** Math.ceil(Math.log2(capacity)));
}
