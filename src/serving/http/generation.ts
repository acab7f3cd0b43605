import {
  FINISH_ABORTED,
  FINISH_LENGTH,
  FINISH_STOP,
  OUTCOME_NAMES,
} from "../../actors/messages.ts";
import type { FrontEnd } from "../front-end.ts";
import type { RequestSummary } from "../front-end-types.ts";
import type { ModelTokenizer } from "../model/tokenizer.ts";
import type { AnswerRequest } from "./answer-request.ts";
import { AnswerText, type AnswerPiece } from "./answer-text.ts";
import {
  type ApiError,
  endedByShutdown,
  failedRequest,
  refusedRequest,
  unservedRequest,
} from "./errors.ts";

export type FinishReason = "stop" | "length";

/** What the body's field `x_mooncake_kv` holds when the request asks for it. */
export interface MooncakeKvExtension {
  /** Hash of the raw logits of the first token, 16 hex digits; null when there was no token. */
  readonly logits_hash: string | null;
  readonly ttft_ms: number | null;
  readonly local_tokens: number;
  readonly pool_tokens: number;
  /** An OUTCOME_ name: how the pool lookup ended. */
  readonly lookup_outcome: string;
  /** Prompt tokens that were computed because they were nowhere. */
  readonly tokens_computed: number;
  readonly preemptions: number;
}

export interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details: { readonly cached_tokens: number };
}

/** How an answer ended; `failure`: it is not complete, and no client may take it for complete. */
export type GenerationResult =
  | {
      readonly failure: null;
      readonly finishReason: FinishReason;
      readonly usage: Usage;
      readonly extension: MooncakeKvExtension;
    }
  | { readonly failure: ApiError };

/** A whole answer. */
export type CompleteResult = Extract<GenerationResult, { readonly failure: null }>;

export interface Generation {
  /** Resolves after the last piece; never rejects. */
  readonly finished: Promise<GenerationResult>;
  abort(): void;
}

/** Hands a request to the front end; `onPiece` gets the answer as it becomes certain. Throws ApiError when it is refused. */
export function startGeneration(
  frontEnd: FrontEnd,
  tokenizer: ModelTokenizer,
  id: string,
  { request, stops }: AnswerRequest,
  onPiece: (piece: AnswerPiece) => void,
): Generation {
  const answer = new AnswerText(tokenizer, stops);
  let firstLogitsHash: string | null = null;
  let resolve: (result: GenerationResult) => void;
  const finished = new Promise<GenerationResult>((settle) => {
    resolve = settle;
  });
  const give = (piece: AnswerPiece): void => {
    if (piece.text !== "" || piece.tokens.length > 0) onPiece(piece);
  };
  const handle = frontEnd.submit(
    { ...request, id },
    {
      token(token, index, logprob, top, logitsHash) {
        if (index === 0) firstLogitsHash = logitsHash === "" ? null : logitsHash;
        give(answer.push(token, logprob, top));
        // The listener is never called before `submit` has returned.
        if (answer.stopped && handle.ok) handle.abort();
      },
      finished(summary) {
        give(answer.finish(summary.reason === FINISH_STOP));
        const reason = finishReason(answer.stopped, summary.reason);
        if (reason === null) return resolve({ failure: failureOf(summary) });
        const promptTokens = request.promptTokens.length;
        resolve({
          failure: null,
          finishReason: reason,
          usage: usageOf(promptTokens, answer.tokenCount, summary),
          extension: extensionOf(promptTokens, firstLogitsHash, summary),
        });
      },
    },
  );
  if (!handle.ok) throw refusedRequest(handle);
  return { finished, abort: () => handle.abort() };
}

/** null: the answer is not complete. */
function finishReason(stopped: boolean, reason: number): FinishReason | null {
  if (stopped || reason === FINISH_STOP) return "stop";
  return reason === FINISH_LENGTH ? "length" : null;
}

/** Nobody but the server itself aborts a request whose client still listens. */
function failureOf({ failure, reason }: RequestSummary): ApiError {
  if (failure !== null) return unservedRequest(failure);
  return reason === FINISH_ABORTED ? endedByShutdown() : failedRequest();
}

function usageOf(promptTokens: number, outputTokens: number, summary: RequestSummary): Usage {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: outputTokens,
    total_tokens: promptTokens + outputTokens,
    prompt_tokens_details: { cached_tokens: summary.localTokens + summary.poolTokens },
  };
}

function extensionOf(
  promptTokens: number,
  logitsHash: string | null,
  summary: RequestSummary,
): MooncakeKvExtension {
  const { localTokens, poolTokens, timeToFirstTokenMs } = summary;
  return {
    logits_hash: logitsHash,
    ttft_ms: Number.isNaN(timeToFirstTokenMs) ? null : timeToFirstTokenMs,
    local_tokens: localTokens,
    pool_tokens: poolTokens,
    lookup_outcome: OUTCOME_NAMES[summary.lookupOutcome] ?? "NONE",
    tokens_computed: promptTokens - localTokens - poolTokens,
    preemptions: summary.preemptions,
  };
}
