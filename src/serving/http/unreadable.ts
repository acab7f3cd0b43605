import { type ServerResponse, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { ApiError } from "./errors.ts";

/** Answers on a connection what Node could not read as a request, in OpenAI's format too, and closes it. */
export function answerUnreadable(error: Error & { readonly code?: string }, socket: Socket): void {
  if (error.code === "ECONNRESET" || socket.destroyed) return;
  // As Node itself looks: in the middle of an answer another one would be taken for its text.
  const { _httpMessage: current } = socket as { _httpMessage?: ServerResponse | null };
  if (socket.writable && current?.headersSent !== true) {
    const failure = unreadable(error.code);
    const body = JSON.stringify(failure.body());
    socket.write(
      [
        `HTTP/1.1 ${failure.status} ${STATUS_CODES[failure.status] ?? ""}`,
        "content-type: application/json; charset=utf-8",
        `content-length: ${Buffer.byteLength(body)}`,
        "connection: close",
        "",
        body,
      ].join("\r\n"),
    );
  }
  socket.destroy();
}

function unreadable(code: string | undefined): ApiError {
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") {
    return new ApiError(
      408,
      "The request did not arrive in time. Send it again.",
      "request_timeout",
    );
  }
  if (code === "HPE_HEADER_OVERFLOW") {
    const text = "URL and headers are larger than this server takes. Send fewer headers.";
    return new ApiError(431, text, "headers_too_large");
  }
  if (code === "HPE_INVALID_URL") {
    return new ApiError(400, "The URL is not valid. Encode its characters.", "invalid_url");
  }
  return new ApiError(400, "This is no valid HTTP request. Correct it.", "invalid_request");
}
