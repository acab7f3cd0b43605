import { MooncakeKvError } from "../../errors.ts";
import type { QueueFailure, SubmitRefusal } from "../front-end-types.ts";
import { CHAT_TEMPLATE_FIELD } from "../model/chat-prompt.ts";

/** The body of an error answer, as OpenAI's clients read it. */
export interface ErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string | null;
  };
}

const RETRY_AFTER_SECONDS = 1;

/** An answer other than 200, thrown inside the HTTP server and turned into OpenAI's format at its edge. */
export class ApiError extends Error {
  readonly status: number;
  readonly type: string;
  readonly param: string | null;
  readonly code: string | null;

  constructor(status: number, message: string, code: string | null, param: string | null = null) {
    // A client's name may be half a surrogate pair, or be cut to one, which many readers of JSON cannot print.
    super(message.toWellFormed());
    this.name = "ApiError";
    this.status = status;
    this.type = status >= 500 ? "server_error" : "invalid_request_error";
    this.code = code;
    this.param = param?.toWellFormed() ?? null;
  }

  get retryAfterSeconds(): number | null {
    return this.status === 503 ? RETRY_AFTER_SECONDS : null;
  }

  body(): ErrorBody {
    const { message, type, param, code } = this;
    return { error: { message, type, param, code } };
  }
}

/** 400 for one parameter: what is wrong with it and what to do. */
export function badParameter(param: string, problem: string, code = "invalid_value"): ApiError {
  return new ApiError(400, `'${param}': ${problem}`, code, param);
}

export function refusedRequest({ reason, remedy }: SubmitRefusal): ApiError {
  if (reason === "TOO_LONG") {
    const text = `The request is too long for this server. ${remedy}`;
    return new ApiError(400, text, "context_length_exceeded");
  }
  return reason === "CAPACITY"
    ? new ApiError(503, `The server is full. ${remedy}`, "server_overloaded")
    : shuttingDown();
}

export function unservedRequest(failure: QueueFailure): ApiError {
  if (failure === "QUEUE_TIMEOUT") {
    const text = "The request waited too long for a free slot. Try again later.";
    return new ApiError(503, text, "server_overloaded");
  }
  if (failure === "CLOSED") return shuttingDown();
  const text = "The request does not fit into this server. Shorten the prompt or lower max_tokens.";
  return new ApiError(400, text, "context_length_exceeded");
}

/** The answer began and cannot be finished, as vLLM's "Internal server error". */
export function failedRequest(): ApiError {
  const text = "The server failed to finish the answer; its log says why. Send the request again.";
  return new ApiError(500, text, "generation_failed");
}

export function endedByShutdown(): ApiError {
  const text =
    "The server is shutting down and ended the answer before it was complete. Send the request to another instance.";
  return new ApiError(500, text, "shutting_down");
}

export function shuttingDown(): ApiError {
  const text = "The server is shutting down. Send the request to another instance.";
  return new ApiError(503, text, "shutting_down");
}

/** Whatever a handler or the HTTP library threw, as an answer. Errors that nobody foresaw do not show their text. */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof MooncakeKvError) return fromMooncakeKvError(error);
  const { statusCode, code } = fieldsOf(error);
  if (statusCode === undefined || statusCode < 400 || statusCode >= 500) {
    return new ApiError(500, "The server failed to answer; its log says why.", "internal_error");
  }
  const known = code === undefined ? undefined : LIBRARY_ERRORS[code];
  if (known !== undefined) return new ApiError(...known);
  // A body that ends early, or a client that leaves within it.
  return new ApiError(
    statusCode,
    "The request could not be read. Send it again.",
    "invalid_request",
  );
}

/** What the HTTP library finds itself, in this server's words. */
const LIBRARY_ERRORS: Readonly<Record<string, [number, string, string]>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: [
    413,
    "The body is larger than this server takes. Send a shorter request.",
    "request_too_large",
  ],
  FST_ERR_CTP_INVALID_MEDIA_TYPE: [
    415,
    "The body must be JSON: set the header 'Content-Type: application/json'.",
    "unsupported_media_type",
  ],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: [
    400,
    "The body has another length than the header 'Content-Length' says. Correct the header.",
    "invalid_request",
  ],
  FST_ERR_BAD_URL: [400, "The URL is not valid: a '%' must begin an encoded byte.", "invalid_url"],
  FST_ERR_MAX_PARAM_LENGTH: [414, "The URL is too long.", "invalid_url"],
};

function fromMooncakeKvError(error: MooncakeKvError): ApiError {
  const { code, message } = error;
  if (code === "CAPACITY" || code === "CLOSED" || code === "TIMEOUT") {
    return new ApiError(503, message, code.toLowerCase());
  }
  // The model's fault, not the server's and not the caller's: it is named.
  if (code === "MODEL_INVALID" && error.field === CHAT_TEMPLATE_FIELD) {
    return new ApiError(500, message, "chat_template_failed");
  }
  const callers = code === "INVALID_VALUE" || code === "INVALID_TYPE" || code === "UNSUPPORTED";
  return callers
    ? new ApiError(400, message, code.toLowerCase(), error.field)
    : new ApiError(500, "The server failed to answer; its log says why.", "internal_error");
}

function fieldsOf(error: unknown): {
  statusCode: number | undefined;
  code: string | undefined;
} {
  if (typeof error !== "object" || error === null) {
    return { statusCode: undefined, code: undefined };
  }
  const statusCode = "statusCode" in error ? error.statusCode : undefined;
  const code = "code" in error ? error.code : undefined;
  return {
    statusCode: typeof statusCode === "number" ? statusCode : undefined,
    code: typeof code === "string" ? code : undefined,
  };
}
