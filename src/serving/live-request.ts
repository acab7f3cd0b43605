import { FINISH_ABORTED, OUTCOME_NONE } from "../actors/messages.ts";
import { NONE, REQUEST_FLAG_IGNORE_END_TOKENS, REQUEST_FLAG_NO_REUSE } from "../blocks/layout.ts";
import type { NewRequest } from "../blocks/request-slots.ts";
import { encodeExtraWords } from "../keys/block-extra.ts";
import type {
  FrontEndRequest,
  QueueFailure,
  RequestListener,
  RequestSummary,
} from "./front-end-types.ts";

/** What the front end keeps of a request from `submit` until its slot is released. */
export class LiveRequest {
  readonly request: FrontEndRequest;
  readonly listener: RequestListener;
  readonly submittedMs: number;
  slot = NONE;
  generation = NONE;
  /** Index of the next token to hand over. */
  nextIndex = 0;
  firstTokenMs = Number.NaN;
  aborted = false;
  finished = false;
  queueTimer: NodeJS.Timeout | undefined;

  constructor(request: FrontEndRequest, listener: RequestListener, submittedMs: number) {
    this.request = request;
    this.listener = listener;
    this.submittedMs = submittedMs;
  }

  get tokensMax(): number {
    return this.request.promptTokens.length + this.request.maxTokens;
  }

  slotRequest(hashBlockSize: number): NewRequest {
    const { request, tokensMax } = this;
    return {
      tokens: request.promptTokens,
      tokensMax,
      extras: extrasOf(request, hashBlockSize),
      sampling: {
        temperature: request.temperature,
        topP: request.topP,
        seed: foldSeed(request.seed),
        logprobs: request.logprobs ?? NONE,
      },
      flags:
        (request.ignoreEndTokens === true ? REQUEST_FLAG_IGNORE_END_TOKENS : 0) |
        (request.noReuse === true ? REQUEST_FLAG_NO_REUSE : 0),
    };
  }

  /** The summary of a request that the scheduler never saw. */
  unserved(failure: QueueFailure | null, reason = FINISH_ABORTED): RequestSummary {
    return {
      reason,
      outputTokens: this.nextIndex,
      localTokens: 0,
      poolTokens: 0,
      lookupOutcome: OUTCOME_NONE,
      preemptions: 0,
      timeToFirstTokenMs: this.firstTokenMs - this.submittedMs,
      failure,
    };
  }
}

/** Only the first block has an extra key: the salt. */
function extrasOf(request: FrontEndRequest, hashBlockSize: number): Int32Array | null {
  if (request.cacheSalt === undefined || request.cacheSalt === "") return null;
  const hashed = { tokens: request.promptTokens, blockSize: hashBlockSize };
  return encodeExtraWords({ ...hashed, cacheSalt: request.cacheSalt }, 1);
}

/** Seeds inside int32 stay as they are; of others the upper half is mixed in, so that it counts too. */
export function foldSeed(seed: number): number {
  const low = seed | 0;
  return low === seed ? low : low ^ Math.imul(Math.floor(seed / 0x1_0000_0000), 0x9e3779b1);
}
