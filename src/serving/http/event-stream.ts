import type { ServerResponse } from "node:http";

/** Bytes that a slow reader may leave unread before the connection is given up. */
const UNREAD_BYTES_MAX = 1 << 20;

type ResponseHeaders = Readonly<Record<string, number | string | string[] | undefined>>;

/** Server-sent events as OpenAI's clients read them, on a response that nobody else writes to. */
export class EventStream {
  readonly #response: ServerResponse;

  /** Sends the head of the response, with `headers` of the server's own before those of the stream. */
  constructor(response: ServerResponse, headers: ResponseHeaders = {}) {
    this.#response = response;
    for (const [name, value] of Object.entries(headers))
      if (value !== undefined) response.setHeader(name, value);
    response.writeHead(200, {
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-cache",
    });
  }

  send(event: object): void {
    this.#write(`data: ${JSON.stringify(event)}\n\n`);
  }

  end(): void {
    this.#write("data: [DONE]\n\n");
    this.#response.end();
  }

  #write(text: string): void {
    const response = this.#response;
    if (response.destroyed) return;
    response.write(text);
    // Closing the connection aborts the request like any client that leaves. The answer may not have its turn on it yet.
    if (response.writableLength > UNREAD_BYTES_MAX) response.req.socket.destroy();
  }
}
