import { FINISH_ABORTED, OUTCOME_NONE } from "../actors/messages.ts";
import { NONE, REQUEST_FLAG_IGNORE_END_TOKENS, REQUEST_FLAG_NO_REUSE } from "../blocks/layout.ts";
import type { NewRequest } from "../blocks/request-slots.ts";
import type { TableDimensions } from "../blocks/tables.ts";
import { checkTokens } from "../blocks/token-ids.ts";
import { encodeExtraWords } from "../keys/block-extra.ts";
import type {
  FrontEndRequest,
  QueueFailure,
  RequestListener,
  RequestSummary,
} from "./front-end-types.ts";

/** What the extra keys of a request depend on besides itself. */
type HashDimensions = Pick<TableDimensions, "hashBlockSize" | "extraEncoding">;

/** What the front end keeps of a request from `submit` until its slot is released. */
export class LiveRequest {
  readonly request: FrontEndRequest;
  readonly listener: RequestListener;
  readonly submittedMs: number;
  readonly slotRequest: NewRequest;
  slot = NONE;
  generation = NONE;
  /** Index of the next token to hand over. */
  nextIndex = 0;
  firstTokenMs = Number.NaN;
  aborted = false;
  finished = false;
  queueTimer: NodeJS.Timeout | undefined;

  /** Throws INVALID_TYPE or INVALID_VALUE for a prompt that is no list of token ids, or a cache salt that has no UTF-8 form. */
  constructor(
    request: FrontEndRequest,
    listener: RequestListener,
    submittedMs: number,
    dimensions: HashDimensions,
  ) {
    checkTokens(request.promptTokens, "promptTokens");
    this.request = request;
    this.listener = listener;
    this.submittedMs = submittedMs;
    this.slotRequest = slotRequestOf(request, dimensions);
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

function slotRequestOf(request: FrontEndRequest, dimensions: HashDimensions): NewRequest {
  return {
    tokens: request.promptTokens,
    tokensMax: request.promptTokens.length + request.maxTokens,
    extras: extrasOf(request, dimensions),
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

/** Only the first block has an extra key: the salt. */
function extrasOf(request: FrontEndRequest, dimensions: HashDimensions): Int32Array | null {
  if (request.cacheSalt === undefined || request.cacheSalt === "") return null;
  const hashed = { tokens: request.promptTokens, blockSize: dimensions.hashBlockSize };
  const encoding = dimensions.extraEncoding;
  return encodeExtraWords({ ...hashed, cacheSalt: request.cacheSalt }, 1, encoding);
}

/** Seeds inside int32 stay as they are; of others the upper half is mixed in, so that it counts too. */
export function foldSeed(seed: number): number {
  const low = seed | 0;
  return low === seed ? low : low ^ Math.imul(Math.floor(seed / 0x1_0000_0000), 0x9e3779b1);
}
