import {
  NONE,
  REQUEST_EXTRAS_PAGE,
  REQUEST_FLAG_IGNORE_END_TOKENS,
  REQUEST_HASH_PAGE,
  REQUEST_LOGPROBS,
  REQUEST_OUTPUT_TOKENS_WORD,
  REQUEST_TOKEN_PAGE,
  SEQUENCE_GENERATION,
  SEQUENCE_LOGITS_HASH,
  SEQUENCE_LOGPROB_F32,
  SEQUENCE_SAMPLE,
  SEQUENCE_SLOT,
  SEQUENCE_TOKEN,
  SEQUENCE_TOKENS,
  STEP_SEQUENCES,
} from "../../blocks/layout.ts";
import { appendLogprobRow } from "../../blocks/logprob-rows.ts";
import { STEP_BUFFERS } from "../../blocks/tables.ts";
import {
  ACTOR_FRONT_END,
  FINISH_ABORTED,
  FINISH_ERROR,
  FINISH_LENGTH,
  FINISH_STOP,
  type StepDone,
} from "../messages.ts";
import type { SchedulerCore } from "./core.ts";
import { finish, reuses } from "./requests.ts";
import { setComputed } from "./sequences.ts";

/** Bits of a float32 that is not a number: the request wants no log-probability. */
const NAN_F32 = 0x7fc00000;

/** The model answered: a fence, the step in flight, or something old. */
export function takeStepDone(core: SchedulerCore, message: StepDone): void {
  const { step, context } = core;
  if (message.number === step.fence) {
    step.fence = 0;
    core.admissionDue = true;
    // The model is idle and never answered the step: it went down with the model's predecessor.
    if (step.inFlight !== 0) step.sendAgain(context);
    return;
  }
  if (message.number !== step.inFlight) return core.stale(message);
  if (message.status < 0) return retry(core);
  core.counters.steps++;
  applyStep(core, false);
  const saves = step.takeSaves();
  if (saves !== null) core.connector?.startSaves(saves);
}

function retry(core: SchedulerCore): void {
  const { step, connector, context, options } = core;
  if (step.fence !== 0) return; // It is sent again when the fence is answered.
  if (step.tries < options.stepTriesMax) {
    core.counters.stepRetries++;
    step.sendAgain(context);
    return;
  }
  context.log.error(
    { step: step.inFlight, tries: step.tries },
    "the model cannot run this step: its requests end",
  );
  // Their blocks were never computed, so nothing of them may be saved.
  const cancelled = step.takeSavesAsCancelled();
  if (cancelled !== null) connector?.hooks.applyOutput(cancelled);
  applyStep(core, true);
}

function applyStep(core: SchedulerCore, failed: boolean): void {
  const { step, states, tables } = core;
  const number = step.inFlight;
  const words = tables.steps;
  const sequences = words[tables.step(number % STEP_BUFFERS) + STEP_SEQUENCES]!;
  step.inFlight = 0;
  core.admissionDue = true;
  let tokens = 0;
  for (let index = 0; index < sequences; index++) {
    const at = step.sequence(number, index);
    const slot = words[at + SEQUENCE_SLOT]!;
    if (
      states.inStep[slot] !== number ||
      states.generation[slot] !== words[at + SEQUENCE_GENERATION]
    )
      continue;
    states.inStep[slot] = 0;
    tokens += words[at + SEQUENCE_TOKENS]!;
    if (failed) finish(core, slot, states.abortPending[slot] === 1 ? FINISH_ABORTED : FINISH_ERROR);
    else applySequence(core, slot, at);
  }
  if (!failed) core.counters.tokensComputed += tokens;
  core.context.trace.record("stepFinished", NONE, NONE, number, tokens);
}

function applySequence(core: SchedulerCore, slot: number, at: number): void {
  const { states, tables } = core;
  setComputed(core, slot, states.computedTokens[slot]! + tables.steps[at + SEQUENCE_TOKENS]!);
  cacheFullBlocks(core, slot);
  if (states.abortPending[slot] === 1) return finish(core, slot, FINISH_ABORTED);
  if (tables.steps[at + SEQUENCE_SAMPLE] !== 1) return;
  appendToken(core, slot, at);
  const reason = finishReason(core, slot);
  if (reason !== 0) finish(core, slot, reason);
}

function appendToken(core: SchedulerCore, slot: number, at: number): void {
  const { states, tables, context } = core;
  const record = tables.request(slot);
  const words = tables.steps;
  const index = states.outputTokens[slot]!;
  const token = words[at + SEQUENCE_TOKEN]!;
  tables.tokens.set(tables.requests[record + REQUEST_TOKEN_PAGE]!, states.knownTokens(slot), token);
  states.outputTokens[slot] = index + 1;
  // Publishes the token in the row; pairs with the front end's load after a restart of this actor.
  Atomics.store(tables.requests, record + REQUEST_OUTPUT_TOKENS_WORD, index + 1);
  if (index === 0) firstToken(core, slot);
  core.counters.tokensGenerated++;
  const wanted = tables.requests[record + REQUEST_LOGPROBS] !== NONE;
  context.send(ACTOR_FRONT_END, {
    kind: "tokenGenerated",
    slot,
    generation: states.generation[slot]!,
    index,
    token,
    logprobF32: wanted ? words[at + SEQUENCE_LOGPROB_F32]! : NAN_F32,
    logitsHashLow: words[at + SEQUENCE_LOGITS_HASH]!,
    logitsHashHigh: words[at + SEQUENCE_LOGITS_HASH + 1]!,
    logprobRow: wanted ? appendLogprobRow(tables, at, index) : NONE,
  });
}

function firstToken(core: SchedulerCore, slot: number): void {
  const { states } = core;
  core.trace("firstToken", slot, states.localTokens[slot]!, states.poolTokens[slot]!);
}

/** FINISH_ code when the last token ends the answer, otherwise 0. */
export function finishReason(core: SchedulerCore, slot: number): number {
  const { states, tables } = core;
  const known = states.knownTokens(slot);
  const page = tables.requests[tables.request(slot) + REQUEST_TOKEN_PAGE]!;
  const minds = (states.flags[slot]! & REQUEST_FLAG_IGNORE_END_TOKENS) === 0;
  if (minds && core.endTokens.has(tables.tokens.get(page, known - 1))) return FINISH_STOP;
  return known >= states.tokensMax[slot]! ? FINISH_LENGTH : 0;
}

/** Enters the request's blocks that are full and final by now into the local prefix cache. */
export function cacheFullBlocks(core: SchedulerCore, slot: number): void {
  const { states } = core;
  const full = Math.floor(states.computedTokens[slot]! / core.blockSize);
  const from = states.cachedBlocks[slot]!;
  if (full <= from || !reuses(core, slot)) return;
  if (!hashTo(core, slot, full * core.blockSize)) return;
  core.rows.cache(slot, from, full);
  states.cachedBlocks[slot] = full;
}

/** Sees to it that the blocks of the first `tokens` tokens are hashed; false while the prompt's hashes are not there. */
function hashTo(core: SchedulerCore, slot: number, tokens: number): boolean {
  const { states, tables, connector, context } = core;
  const wanted = Math.floor(tokens / tables.dimensions.hashBlockSize);
  const hashed = states.hashedBlocks[slot]!;
  if (wanted <= hashed) return true;
  if (hashed < tables.hashableBlocks(states.promptTokens[slot]!)) return false;
  if (wanted > tables.hashableBlocks(states.knownTokens(slot))) return false;
  if (connector !== null) {
    if (!connector.hooks.hashTo(slot, tokens)) return false;
  } else {
    const record = tables.request(slot);
    context.hashBlocks(
      tables.requests[record + REQUEST_TOKEN_PAGE]!,
      tables.requests[record + REQUEST_HASH_PAGE]!,
      tables.requests[record + REQUEST_EXTRAS_PAGE]!,
      hashed,
      wanted,
    );
  }
  states.hashedBlocks[slot] = wanted;
  return true;
}
