import { mailboxRecords, powerOfTwo } from "../blocks/capacities.ts";
import type { ChannelShape } from "../blocks/layout.ts";
import type { TableBuffers } from "../blocks/tables.ts";
import type { ConnectorConfig } from "../config/connector-config.ts";
import type { KvCacheConfig } from "../config/kv-cache-config.ts";
import type { HitRules } from "../keys/coordinator/hit-rules.ts";
import type { WorkerKeySpace } from "../store/key-spaces.ts";
import {
  ACTOR_COUNT,
  ACTOR_FRONT_END,
  ACTOR_LOADER,
  ACTOR_LOOKUP,
  ACTOR_MODEL,
  ACTOR_SAVER,
  ACTOR_SCHEDULER,
} from "./messages.ts";

/** An engine channel as a worker attaches it: memory registered with the addon, opened by the runtime's thread. */
export interface ChannelPlan {
  readonly channelId: number;
  readonly words: SharedArrayBuffer;
  readonly shape: ChannelShape;
}

/** The lookup socket; a server's own tables, key space, channel and wake handle serve the questions of other processes. */
export type LookupRpcPlan =
  | { readonly role: "client"; readonly path: string }
  | {
      readonly role: "server";
      readonly path: string;
      readonly tables: TableBuffers;
      readonly worker: WorkerKeySpace;
      readonly channel: ChannelPlan;
      readonly wakeId: number;
    };

/** Everything that all threads of a runtime share, as plain data: made once by the runtime, posted to every actor thread. */
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
  /** What a hit needs; tells whether lookups, loads and saves are planned (`uniform` false). */
  readonly rules: HitRules;
  /** null: no lookup crosses a socket. */
  readonly lookupRpc: LookupRpcPlan | null;
  /** Monotonic nanoseconds that count as time 0 of this runtime in all threads. */
  readonly originNanoseconds: number;
  /** Trace rings by ACTOR_ number, or null when tracing is off. */
  readonly traceRings: readonly SharedArrayBuffer[] | null;
  /** Rings of KV events by ACTOR_ number, of those that make some; null: none are made. */
  readonly eventRings: { readonly [actor: number]: SharedArrayBuffer } | null;
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
  /** Folder for a recording of the thread's steps, or null. */
  readonly recordFolder: string | null;
}

/** Bits by ACTOR_ number: actors that were given up. Written by the supervisor (Atomics.or), read by whoever sends. */
export const CONTROL_GONE_WORD = 0;
/** Which thread has attached the connector (its threadId plus 1), 0 for none. Written by compareExchange of that thread, and by
 * the runtime's thread once that thread has ended. */
export const CONTROL_OWNER_WORD = 16;
/** Epoch of the model thread that is to end itself between two runs. Written by the supervisor, read by that thread. */
export const CONTROL_MODEL_EXIT_WORD = 32;
/** A MEMBERSHIP_ number. Written by the runtime's thread, read by the scheduler side before it uses the pool. */
export const CONTROL_MEMBERSHIP_WORD = 48;
/** What the loader found under our keys: see MismatchWords. */
export const CONTROL_MISMATCH_WORD = 64;
export const CONTROL_WORDS = 80;

/** Records of each mailbox by ACTOR_ number, powers of two. */
export function mailboxCapacities(
  requestSlots: number,
  jobSlots: number,
  stepSequencesMax: number,
  ranks: number,
): number[] {
  const records = mailboxRecords(requestSlots, jobSlots, stepSequencesMax, ranks);
  const capacities: number[] = Array.from({ length: ACTOR_COUNT }, () => 64);
  capacities[ACTOR_SCHEDULER] = powerOfTwo(records.scheduler);
  capacities[ACTOR_LOOKUP] = powerOfTwo(records.lookup);
  capacities[ACTOR_LOADER] = powerOfTwo(records.loader);
  capacities[ACTOR_SAVER] = powerOfTwo(records.saver);
  capacities[ACTOR_MODEL] = powerOfTwo(records.model);
  capacities[ACTOR_FRONT_END] = powerOfTwo(records.frontEnd);
  return capacities;
}
