import { chmodSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { MooncakeKvError } from "../../../errors.ts";
import {
  decodeWireRequest,
  encodeLookupReply,
  RESET_DONE,
  RESET_FAILED,
  type LookupReply,
  type LookupRequest,
  type WireRequest,
} from "../../../connector/lookup-wire.ts";
import { splitEnvelope } from "../../../connector/zmtp.ts";
import type { ForeignFailure } from "../../lookup/foreign/foreign-lookups.ts";
import type { LookupRpcOutcome } from "../../../trace/families.ts";
import type { Log } from "../../step.ts";
import { CONNECTION_LIMITS, type ConnectionLimits, LookupConnection } from "./lookup-connection.ts";

/** Askers at a time: a scheduler process each. */
const CONNECTIONS_MAX = 64;
const SOCKET_MODE = 0o700;
/** What all of them hold together. */
const HELD_BYTES_MAX = 256 * 1024 * 1024;

export interface LookupServerOptions {
  /** Path of the Unix socket; a socket that a dead server left there is replaced. */
  readonly path: string;
  /** Calls back once, now or later. */
  readonly lookup: (
    request: LookupRequest,
    answered: (reply: LookupReply, failure: ForeignFailure | null) => void,
  ) => void;
  /** Empties the pool; false when that failed. Must not reject. */
  readonly reset: () => Promise<boolean>;
  /** Called once for each request. */
  readonly count: (outcome: LookupRpcOutcome) => void;
  readonly nowMs: () => number;
  readonly log: Log;
  /** Of each connection, and what all hold together; for tests. */
  readonly limits?: ConnectionLimits;
  readonly heldBytesMax?: number;
  readonly connectionsMax?: number;
}

/**
 * Answers vLLM schedulers (and others of this project) on the lookup socket, as vLLM's LookupKeyServer does: a REP socket with the
 * verbs "lookup" and "reset". Requests of one connection are answered one after the other, connections independently of each other.
 */
export class LookupServer {
  readonly #options: LookupServerOptions;
  readonly #server: Server;
  readonly #connections = new Map<Socket, LookupConnection>();
  #heldBytes = 0;

  private constructor(options: LookupServerOptions, server: Server) {
    this.#options = options;
    this.#server = server;
    server.on("connection", (socket) => this.#accept(socket));
  }

  /**
   * Rejects with what listening throws. The path must be free, see `claimSocketPath`. Only processes of the same user may connect:
   * whoever may, can ask for a reset.
   */
  static async open(options: LookupServerOptions): Promise<LookupServer> {
    const server = createServer();
    const opened = new LookupServer(options, server);
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(options.path, () => resolve());
      // The file is there at once unless listening has failed, which is told later.
      if (server.listening) chmodSync(options.path, SOCKET_MODE);
    });
    server.on("error", (error) => options.log.error({ error: error.message }, "lookup server"));
    return opened;
  }

  /** Memory that all connections hold together. */
  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** Cuts all connections; the socket's file goes away. */
  close(): void {
    this.#server.close();
    for (const socket of this.#connections.keys()) socket.destroy();
  }

  #accept(socket: Socket): void {
    const { count, log, nowMs } = this.#options;
    const {
      limits = CONNECTION_LIMITS,
      heldBytesMax = HELD_BYTES_MAX,
      connectionsMax = CONNECTIONS_MAX,
    } = this.#options;
    if (this.#connections.size >= connectionsMax) this.#makeRoom(connectionsMax);
    socket.on("close", () => this.#connections.delete(socket));
    const connection = new LookupConnection(
      socket,
      {
        serve: (frames, done) => this.#serve(frames, done),
        hold: (bytes) => {
          this.#heldBytes += bytes;
          return this.#heldBytes <= heldBytesMax;
        },
        nowMs,
        cutOff: (problem) => {
          count("refused");
          log.warn({ problem }, "a connection to the lookup socket is cut off");
        },
      },
      limits,
    );
    this.#connections.set(socket, connection);
    if (this.#connections.size > connectionsMax)
      connection.cutOff(`${connectionsMax} others wait for answers`);
  }

  /** Who has been silent for longest goes, and finds its way back with its next question. */
  #makeRoom(connectionsMax: number): void {
    let oldest: { socket: Socket; connection: LookupConnection; sinceMs: number } | null = null;
    for (const [socket, connection] of this.#connections) {
      const sinceMs = connection.idleSinceMs;
      if (sinceMs !== null && (oldest === null || sinceMs < oldest.sinceMs))
        oldest = { socket, connection, sinceMs };
    }
    if (oldest === null) return;
    oldest.connection.cutOff(`it asks nothing, and more than ${connectionsMax} are connected`);
    this.#connections.delete(oldest.socket);
  }

  #serve(frames: readonly Uint8Array[], done: (reply: readonly Uint8Array[]) => void): void {
    const { count, lookup, reset } = this.#options;
    const message = splitEnvelope(frames);
    const envelope = message?.envelope ?? [];
    const reply = (body: Uint8Array): void => done([...envelope, body]);
    const request = this.#decode(message?.body ?? []);
    if (request === null) return reply(RESET_FAILED);
    if (request.kind === "reset") {
      const answer = (emptied: boolean): void => {
        count(emptied ? "reset" : "reset_failed");
        reply(emptied ? RESET_DONE : RESET_FAILED);
      };
      return void reset().then(answer, () => answer(false));
    }
    lookup(request, (answer, failure) => {
      count(failure ?? (answer.hitTokens > 0 ? "hit" : "miss"));
      reply(encodeLookupReply(answer));
    });
  }

  /** null: no request. vLLM answers such a one with its error byte, and goes on. */
  #decode(body: readonly Uint8Array[]): WireRequest | null {
    try {
      return decodeWireRequest(body);
    } catch (error) {
      if (!(error instanceof MooncakeKvError)) throw error;
      const { count, log } = this.#options;
      count("refused");
      log.warn({ error: error.message }, "a request on the lookup socket is none");
      return null;
    }
  }
}
