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
import { splitEnvelope, ZmtpConnection } from "../../../connector/zmtp.ts";
import type { ForeignFailure } from "../../lookup/foreign/foreign-lookups.ts";
import type { LookupRpcOutcome } from "../../../trace/families.ts";
import type { Log } from "../../step.ts";

/** Askers at a time: a scheduler process each. */
const CONNECTIONS_MAX = 64;
/** Questions of one connection that wait for their turn; who sends more is no lookup client, and is cut off. */
const WAITING_MAX = 256;
/** Two million hashes of 32 bytes. */
const LIMITS = { frameBytesMax: 64 * 1024 * 1024, framesMax: 8 };

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
  readonly log: Log;
}

/**
 * Answers vLLM schedulers (and others of this project) on the lookup socket, as vLLM's LookupKeyServer does: a REP socket with the
 * verbs "lookup" and "reset". Requests of one connection are answered one after the other, connections independently of each other.
 */
export class LookupServer {
  readonly #options: LookupServerOptions;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(options: LookupServerOptions, server: Server) {
    this.#options = options;
    this.#server = server;
    server.maxConnections = CONNECTIONS_MAX;
    server.on("connection", (socket) => this.#accept(socket));
  }

  /** Rejects with what listening throws. The path must be free, see `claimSocketPath`. */
  static async open(options: LookupServerOptions): Promise<LookupServer> {
    const server = createServer();
    const opened = new LookupServer(options, server);
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(options.path, () => resolve());
    });
    server.on("error", (error) => options.log.error({ error: error.message }, "lookup server"));
    return opened;
  }

  /** Cuts all connections; the socket's file goes away. */
  close(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #accept(socket: Socket): void {
    this.#sockets.add(socket);
    const waiting: (readonly Uint8Array[])[] = [];
    let busy = false;
    const next = (): void => {
      const frames = busy ? undefined : waiting.shift();
      if (frames === undefined) return;
      busy = true;
      this.#serve(frames, (reply) => {
        busy = false;
        if (!socket.destroyed) zmtp.send(reply);
        next();
      });
    };
    const zmtp = new ZmtpConnection(
      "REP",
      {
        write: (bytes) => void socket.write(bytes),
        ready: () => undefined,
        message: (frames) => {
          if (waiting.push(frames) > WAITING_MAX) socket.destroy();
          else next();
        },
      },
      LIMITS,
    );
    socket.on("data", (bytes) => {
      try {
        zmtp.receive(bytes);
      } catch (error) {
        this.#refused(error);
        socket.destroy();
      }
    });
    socket.on("error", () => socket.destroy());
    socket.on("close", () => this.#sockets.delete(socket));
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
      return void reset().then(answer);
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
      this.#refused(error);
      return null;
    }
  }

  #refused(error: unknown): void {
    if (!(error instanceof MooncakeKvError)) throw error;
    this.#options.count("refused");
    this.#options.log.warn({ error: error.message }, "a request on the lookup socket is none");
  }
}
