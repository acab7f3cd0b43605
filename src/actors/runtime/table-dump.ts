import {
  BATCH_COUNT,
  BATCH_JOB,
  BATCH_OPERATION,
  BATCH_STATE_SUBMITTED,
  BATCH_STATE_WORD,
  JOB_CHUNKS,
  JOB_DEADLINE_MS,
  JOB_GENERATION,
  JOB_KIND,
  JOB_KIND_LOAD,
  JOB_LIVE_WORD,
  JOB_SLOT,
  JOB_STATE_WORD,
  lookupAttempt,
  lookupState,
  REQUEST_FLAG_ABORTED,
  REQUEST_FLAGS,
  REQUEST_GENERATION,
  REQUEST_LIVE_WORD,
  REQUEST_LOADS_IN_FLIGHT,
  REQUEST_LOOKUP_ASKED_WORD,
  REQUEST_LOOKUP_WORD,
  REQUEST_OUTPUT_TOKENS_WORD,
  REQUEST_PROMPT_TOKENS,
  REQUEST_SAVES_IN_FLIGHT,
  REQUEST_STATUS,
  stateOf,
} from "../../blocks/layout.ts";
import { widenTime } from "../../blocks/int32-time.ts";
import type { Tables } from "../../blocks/tables.ts";
import { ChannelWords } from "../../store/channel-words.ts";
import { OUTCOME_NAMES } from "../messages.ts";
import type { ChannelPlan } from "../plan.ts";
import { STATE_NAMES, stateOfStatus } from "../scheduler/request-states.ts";

/** How many of a kind are written out; the rest is counted. */
export const LISTED_MAX = 256;

const JOB_STATES = ["new", "taken", "done"] as const;
const OPERATIONS = ["none", "exists", "put", "get", "remove", "removeAll"] as const;

export interface Listed {
  readonly count: number;
  /** The first LISTED_MAX of them. */
  readonly listed: readonly Readonly<Record<string, unknown>>[];
}

/**
 * What any thread can see in the shared tables, also of an actor that is stuck and answers nothing. It races with the writers:
 * a record may be half old, half new. For people only.
 */
export function dumpRequests(tables: Tables): Listed & { byState: Record<string, number> } {
  const { requests } = tables;
  const byState: Record<string, number> = {};
  const listed: Record<string, unknown>[] = [];
  let count = 0;
  for (let slot = 0; slot < tables.dimensions.requestSlots; slot++) {
    const at = tables.request(slot);
    const word = (offset: number): number => Atomics.load(requests, at + offset);
    // Pairs with the owner's publishing store.
    if (word(REQUEST_LIVE_WORD) !== 1) continue;
    count++;
    const generation = word(REQUEST_GENERATION);
    const status = stateOfStatus(word(REQUEST_STATUS), generation);
    const state = status === 0 ? "announced" : (STATE_NAMES[status] ?? "unknown");
    byState[state] = (byState[state] ?? 0) + 1;
    if (listed.length === LISTED_MAX) continue;
    listed.push({
      slot,
      generation,
      state,
      promptTokens: word(REQUEST_PROMPT_TOKENS),
      outputTokens: word(REQUEST_OUTPUT_TOKENS_WORD),
      aborted: (word(REQUEST_FLAGS) & REQUEST_FLAG_ABORTED) !== 0,
      lookupAsked: lookupAttempt(word(REQUEST_LOOKUP_ASKED_WORD)),
      lookupAnswered: lookupAttempt(word(REQUEST_LOOKUP_WORD)),
      lookupOutcome: OUTCOME_NAMES[lookupState(word(REQUEST_LOOKUP_WORD))],
      loadsInFlight: word(REQUEST_LOADS_IN_FLIGHT),
      savesInFlight: word(REQUEST_SAVES_IN_FLIGHT),
    });
  }
  return { count, byState, listed };
}

/** Live records of the job table. `nowMs` is the runtime's time. */
export function dumpJobs(tables: Tables, nowMs: number): Listed {
  const listed: Record<string, unknown>[] = [];
  let count = 0;
  for (let job = 0; job < tables.dimensions.jobSlots; job++) {
    const at = tables.job(job);
    const word = (offset: number): number => Atomics.load(tables.jobs, at + offset);
    // Pairs with the scheduler side's publishing store.
    if (word(JOB_LIVE_WORD) !== 1) continue;
    count++;
    if (listed.length === LISTED_MAX) continue;
    listed.push({
      job,
      kind: word(JOB_KIND) === JOB_KIND_LOAD ? "load" : "save",
      slot: word(JOB_SLOT),
      generation: word(JOB_GENERATION),
      state: JOB_STATES[stateOf(word(JOB_STATE_WORD))] ?? "unknown",
      chunks: word(JOB_CHUNKS),
      untilDeadlineMs: Math.round(widenTime(word(JOB_DEADLINE_MS), nowMs) - nowMs),
    });
  }
  return { count, listed };
}

/** Batches that an actor's engine channel has submitted and the engine has not completed. */
export function dumpBatches({ words, shape }: ChannelPlan): Listed {
  const channel = new ChannelWords(new Int32Array(words), shape);
  const listed: Record<string, unknown>[] = [];
  let count = 0;
  for (let slot = 0; slot < shape.batchSlots; slot++) {
    const at = channel.batch(slot);
    // Pairs with the actor's store at submit and the engine's at completion.
    if (Atomics.load(channel.words, at + BATCH_STATE_WORD) !== BATCH_STATE_SUBMITTED) continue;
    count++;
    listed.push({
      batch: slot,
      operation: OPERATIONS[channel.words[at + BATCH_OPERATION]!] ?? "unknown",
      keys: channel.words[at + BATCH_COUNT],
      job: channel.words[at + BATCH_JOB],
    });
  }
  return { count, listed: listed.slice(0, LISTED_MAX) };
}
