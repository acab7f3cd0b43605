import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Log } from "../../actors/step.ts";
import type { AccessControl, AccessRequest } from "./access/access.ts";
import { onClientGone } from "./client-sockets.ts";
import { ApiError, shuttingDown, toApiError } from "./errors.ts";
import { parseJsonBody } from "./json-body.ts";

/** What the server knows of its requests. */
export interface AnsweringState {
  closing: boolean;
  /** Requests that may change something and are not answered yet, and whose client is there. */
  answering: number;
}

export interface EdgePorts {
  readonly access: AccessControl;
  readonly state: AnsweringState;
  readonly log: Log;
}

/** What stands before and behind all routes: who may ask, bodies, errors, unknown addresses. Call before routes are added. */
export function prepareEdge(server: FastifyInstance, ports: EdgePorts): void {
  const { access, state, log } = ports;
  const methods = collectMethods(server);
  server.removeAllContentTypeParsers();
  server.addContentTypeParser("application/json", { parseAs: "buffer" }, (_request, body, done) => {
    try {
      done(null, parseJsonBody(body as Buffer));
    } catch (error) {
      done(error as Error);
    }
  });
  server.addHook("onRequest", async (request, reply) => {
    const asked = accessRequest(request);
    // First, so that a page may read why it is refused.
    reply.headers(access.corsHeaders(asked));
    checkHeaders(request);
    access.check(asked);
    const preflight = access.preflight(asked);
    if (preflight !== null) {
      await reply.code(204).headers(preflight).send();
    } else if (request.method === "POST") {
      if (state.closing) throw shuttingDown();
      countAnswer(request, reply, state);
    }
  });
  server.setErrorHandler((error, request, reply) => {
    const failure = toApiError(error);
    if (failure.status >= 500 && !(error instanceof ApiError)) {
      const text = error instanceof Error ? error.stack : String(error);
      log.error({ url: request.url.slice(0, 200), error: text }, "request failed");
    }
    return sendError(reply, failure);
  });
  server.setNotFoundHandler((request, reply) => {
    const path = request.url.split("?", 1)[0] ?? "";
    const allowed = methods(path);
    if (allowed.length === 0) {
      const text = `Unknown request URL: ${request.method} ${request.url.slice(0, 200)}. See GET /v1/models, POST /v1/completions and POST /v1/chat/completions.`;
      throw new ApiError(404, text, "unknown_url");
    }
    reply.header("allow", allowed.join(", "));
    if (request.method === "OPTIONS") return reply.code(204).send();
    const text = `${request.method} is not allowed for ${path.slice(0, 200)}. Use ${allowed.join(" or ")}.`;
    throw new ApiError(405, text, "method_not_allowed");
  });
}

/** Also for what the HTTP library refuses before any hook. */
export function sendError(reply: FastifyReply, failure: ApiError): FastifyReply {
  const { retryAfterSeconds, status } = failure;
  if (retryAfterSeconds !== null) reply.header("retry-after", String(retryAfterSeconds));
  if (status === 401) reply.header("www-authenticate", "Bearer");
  return reply.code(status).send(failure.body());
}

function accessRequest({ method, headers, routeOptions }: FastifyRequest): AccessRequest {
  return { method, route: routeOptions.url, headers };
}

/** What Node would refuse with an empty answer, and what would be read as another text. */
function checkHeaders({ raw, headers }: FastifyRequest): void {
  if (headers.host === undefined && raw.httpVersion !== "1.0") {
    throw new ApiError(400, "The header 'Host' is missing. Send it.", "invalid_request");
  }
  const encoding = headers["content-encoding"] ?? "identity";
  if (encoding.toLowerCase() !== "identity") {
    const text = "The body must not be compressed. Leave out the header 'Content-Encoding'.";
    throw new ApiError(415, text, "unsupported_media_type");
  }
}

/** Until the answer is sent or nobody is there to read it. */
function countAnswer(request: FastifyRequest, reply: FastifyReply, state: AnsweringState): void {
  let counted = true;
  state.answering++;
  const ended = (): void => {
    off();
    if (counted) state.answering--;
    counted = false;
  };
  reply.raw.once("close", ended);
  let off = (): void => undefined;
  off = onClientGone(request.raw.socket, ended);
}

/** The methods of a path, in the order in which they were added; none when the path is unknown. */
function collectMethods(server: FastifyInstance): (path: string) => readonly string[] {
  const routes: { readonly url: string; readonly methods: readonly string[] }[] = [];
  server.addHook("onRoute", ({ url, method }) => {
    routes.push({ url, methods: typeof method === "string" ? [method] : method });
  });
  return (path) => {
    const fitting = routes.filter(({ url }) =>
      url.endsWith("*") ? path.startsWith(url.slice(0, -1)) : path === url,
    );
    return [...new Set(fitting.flatMap((route) => route.methods))];
  };
}
