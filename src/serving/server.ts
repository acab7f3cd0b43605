import type { FastifyInstance } from "fastify";
import type { AddressInfo } from "node:net";
import type { Log } from "../actors/step.ts";
import { AccessControl, type AccessOptions } from "./http/access/access.ts";
import { type AnsweringState, prepareEdge, sendError } from "./http/edge.ts";
import { toApiError } from "./http/errors.ts";
import { addRoutes, type RoutePorts } from "./http/routes.ts";
import { answerUnreadable } from "./http/unreadable.ts";
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
/** Longest part of a URL that is a parameter; Node bounds URL and headers together. */
const URL_CHARACTERS_MAX = 16_384;

/** The address is 127.0.0.1 unless given: without API keys the server asks nobody who they are. */
export interface OpenAiServerOptions extends RoutePorts, ListenAddress, AccessOptions {
  readonly bodyBytesMax?: number | undefined;
  readonly receiveTimeoutMs?: number | undefined;
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
  readonly #state: AnsweringState;
  #closed: Promise<boolean> | undefined;

  private constructor(
    fastify: FastifyInstance,
    options: OpenAiServerOptions,
    state: AnsweringState,
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
   * listened on and for access options that are none; nothing is left open then.
   */
  static async start(options: OpenAiServerOptions): Promise<OpenAiServer> {
    const { fastify } = await importOptional("fastify", () => import("fastify"));
    const access = new AccessControl(options);
    const receiveTimeoutMs = options.receiveTimeoutMs ?? RECEIVE_TIMEOUT_MS;
    const server = fastify({
      bodyLimit: options.bodyBytesMax ?? BODY_BYTES_MAX,
      requestTimeout: receiveTimeoutMs,
      forceCloseConnections: true,
      return503OnClosing: false,
      routerOptions: { maxParamLength: URL_CHARACTERS_MAX },
      http: {
        headersTimeout: receiveTimeoutMs,
        connectionsCheckingInterval: Math.min(30_000, Math.ceil(receiveTimeoutMs / 4)),
        requireHostHeader: false,
      },
      clientErrorHandler: answerUnreadable,
      frameworkErrors: (error, _request, reply) => {
        void sendError(reply, toApiError(error));
      },
    });
    const state: AnsweringState = { closing: false, answering: 0 };
    server.server.maxConnections = CONNECTIONS_MAX;
    prepareEdge(server, { access, state, log: options.log });
    addRoutes(server, options);
    const host = options.host ?? "127.0.0.1";
    try {
      await server.listen({ host, port: options.port });
    } catch (error) {
      await server.close();
      throw listenError(error, options);
    }
    const { address } = server.server.address() as AddressInfo;
    if (!access.listensOn(host, address) && !access.keyNeeded) warnOpen(options.log, address);
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

function warnOpen(log: Log, address: string): void {
  const text =
    "whoever reaches this address may use the server: it was started without an API key. Give it one with --api-key or MOONCAKE_KV_API_KEY, or listen on 127.0.0.1";
  log.warn({ address }, text);
}
