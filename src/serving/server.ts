import type { FastifyInstance } from "fastify";
import type { AddressInfo } from "node:net";
import type { Log } from "../actors/step.ts";
import { ApiError, shuttingDown, toApiError } from "./http/errors.ts";
import { addRoutes, type RoutePorts } from "./http/routes.ts";
import { type ListenAddress, listenError } from "./listening.ts";
import { importOptional } from "./model/optional-packages.ts";

const BODY_BYTES_MAX = 8 * 1024 * 1024;
/** Connections at a time; one more is closed at once. */
const CONNECTIONS_MAX = 16_384;
/** How long a client may take to send a request. */
const RECEIVE_TIMEOUT_MS = 60_000;
/** After the drain's time limit: how long the aborted requests may take to end, and at most a quarter of that limit. */
const ABORT_TIMEOUT_MS = 1000;
const DRAIN_POLL_MS = 10;

/** The address is 127.0.0.1 unless given: the server asks nobody for a password. */
export interface OpenAiServerOptions extends RoutePorts, ListenAddress {
  readonly bodyBytesMax?: number | undefined;
  readonly log: Log;
}

/**
 * The OpenAI-compatible HTTP server over a front end. One thread, the front end's. It owns neither the front end nor the
 * runtime: close it first, then those.
 */
export class OpenAiServer {
  readonly host: string;
  readonly port: number;
  readonly #fastify: FastifyInstance;
  readonly #options: OpenAiServerOptions;
  readonly #state: { closing: boolean; answering: number };
  #closed: Promise<boolean> | undefined;

  private constructor(
    fastify: FastifyInstance,
    options: OpenAiServerOptions,
    state: { closing: boolean; answering: number },
  ) {
    const { address, port } = fastify.server.address() as AddressInfo;
    this.#fastify = fastify;
    this.#options = options;
    this.#state = state;
    this.host = address;
    this.port = port;
  }

  /**
   * Listens when the promise resolves. Throws OPTIONAL_MISSING without fastify, INVALID_VALUE for a port or host that cannot be
   * listened on; nothing is left open then.
   */
  static async start(options: OpenAiServerOptions): Promise<OpenAiServer> {
    const { fastify } = await importOptional("fastify", () => import("fastify"));
    const server = fastify({
      bodyLimit: options.bodyBytesMax ?? BODY_BYTES_MAX,
      requestTimeout: RECEIVE_TIMEOUT_MS,
      forceCloseConnections: true,
    });
    const state = { closing: false, answering: 0 };
    server.server.maxConnections = CONNECTIONS_MAX;
    prepare(server, options, state);
    try {
      await server.listen({ host: options.host ?? "127.0.0.1", port: options.port });
    } catch (error) {
      await server.close();
      throw listenError(error, options);
    }
    return new OpenAiServer(server, options, state);
  }

  get url(): string {
    return `http://${this.host.includes(":") ? `[${this.host}]` : this.host}:${this.port}`;
  }

  /**
   * Refuses new requests with 503, lets running ones end within `timeoutMs`, aborts the rest and closes. True when none had to
   * be aborted. All callers get one result.
   */
  close(timeoutMs: number): Promise<boolean> {
    this.#closed ??= this.#close(timeoutMs);
    return this.#closed;
  }

  async #close(timeoutMs: number): Promise<boolean> {
    const { frontEnd } = this.#options;
    this.#state.closing = true;
    frontEnd.beginShutdown();
    const drained = await this.#answered(timeoutMs);
    if (!drained) {
      frontEnd.abortAll();
      await this.#answered(Math.min(ABORT_TIMEOUT_MS, timeoutMs / 4));
    }
    await this.#fastify.close();
    return drained;
  }

  /** True when every answer is sent, false after `timeoutMs`. */
  #answered(timeoutMs: number): Promise<boolean> {
    if (this.#state.answering === 0) return Promise.resolve(true);
    return new Promise((resolve) => {
      const poll = setInterval(() => {
        if (this.#state.answering === 0) finish(true);
      }, DRAIN_POLL_MS);
      const timer = setTimeout(() => finish(false), timeoutMs);
      const finish = (drained: boolean): void => {
        clearInterval(poll);
        clearTimeout(timer);
        resolve(drained);
      };
    });
  }
}

function prepare(
  server: FastifyInstance,
  options: OpenAiServerOptions,
  state: { closing: boolean; answering: number },
): void {
  server.addHook("onRequest", async (request, reply) => {
    if (request.method !== "POST") return;
    if (state.closing) throw shuttingDown();
    state.answering++;
    reply.raw.once("close", () => {
      state.answering--;
    });
  });
  server.setErrorHandler((error, request, reply) => {
    const failure = toApiError(error);
    if (failure.status >= 500 && !(error instanceof ApiError)) {
      const fields = {
        url: request.url,
        error: error instanceof Error ? error.stack : String(error),
      };
      options.log.error(fields, "request failed");
    }
    const { retryAfterSeconds } = failure;
    if (retryAfterSeconds !== null) reply.header("retry-after", String(retryAfterSeconds));
    return reply.code(failure.status).send(failure.body());
  });
  server.setNotFoundHandler((request) => {
    const text = `Unknown request URL: ${request.method} ${request.url.slice(0, 200)}. See GET /v1/models, POST /v1/completions and POST /v1/chat/completions.`;
    throw new ApiError(404, text, "unknown_url");
  });
  addRoutes(server, options);
}
