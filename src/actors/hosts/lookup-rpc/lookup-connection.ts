import type { Socket } from "node:net";
import { ZmtpConnection } from "../../../connector/zmtp.ts";
import { MooncakeKvError } from "../../../errors.ts";

const MEBIBYTE = 1024 * 1024;

export interface ConnectionLimits {
  /** One message: a lookup with all its hashes. */
  readonly messageBytesMax: number;
  readonly framesMax: number;
  /** What waits for an answer, with the memory that messages on their way take: from here on nothing more is read. */
  readonly heldBytesMax: number;
  /** Messages that wait for their turn. */
  readonly waitingMax: number;
  /** Answers that the peer does not read. */
  readonly answerBytesMax: number;
  /** Until a peer has said who it is. */
  readonly handshakeTimeoutMs: number;
}

/** A lookup of four million tokens in blocks of 16 has 262,144 hashes of 32 bytes. */
export const CONNECTION_LIMITS: ConnectionLimits = {
  messageBytesMax: 8 * MEBIBYTE,
  framesMax: 8,
  // The buffer in which such a message arrives doubles as it grows; with the frames that are read of it that is 24 MiB.
  heldBytesMax: 32 * MEBIBYTE,
  // A scheduler process of this project has 32 questions on the way, vLLM's has one.
  waitingMax: 256,
  answerBytesMax: MEBIBYTE,
  handshakeTimeoutMs: 5_000,
};

export interface ConnectionEnds {
  /** Calls back once, now or later, with the frames of the answer. */
  readonly serve: (
    frames: readonly Uint8Array[],
    done: (reply: readonly Uint8Array[]) => void,
  ) => void;
  /** This connection holds so many bytes more, or fewer; false: all together hold too many. */
  readonly hold: (bytes: number) => boolean;
  readonly nowMs: () => number;
  /** The peer is cut off: `problem` says why. */
  readonly cutOff: (problem: string) => void;
}

/**
 * One peer of the lookup server: its messages are answered one after the other. A peer that asks faster than it is answered is read
 * from more slowly; one whose messages are too long or too many, or that does not read its answers, is cut off.
 */
export class LookupConnection {
  readonly #socket: Socket;
  readonly #ends: ConnectionEnds;
  readonly #limits: ConnectionLimits;
  readonly #zmtp: ZmtpConnection;
  readonly #waiting: (readonly Uint8Array[])[] = [];
  /** Of whole messages, the one that is being answered among them. */
  #messageBytes = 0;
  /** As told to `hold`. */
  #held = 0;
  #busy = false;
  #lastHeardMs: number;

  constructor(socket: Socket, ends: ConnectionEnds, limits: ConnectionLimits) {
    this.#socket = socket;
    this.#ends = ends;
    this.#limits = limits;
    this.#lastHeardMs = ends.nowMs();
    const { handshakeTimeoutMs } = limits;
    const silent = setTimeout(
      () => this.cutOff(`it has not said who it is within ${handshakeTimeoutMs} ms`),
      handshakeTimeoutMs,
    );
    silent.unref();
    this.#zmtp = new ZmtpConnection(
      "REP",
      {
        write: (bytes) => void socket.write(bytes),
        ready: () => clearTimeout(silent),
        message: (frames) => this.#take(frames),
      },
      limits,
    );
    socket.on("data", (bytes) => this.#receive(bytes));
    socket.on("error", () => socket.destroy());
    socket.on("close", () => {
      clearTimeout(silent);
      this.#waiting.length = 0;
      ends.hold(-this.#held);
      this.#held = 0;
    });
  }

  /** When the peer was heard of last; null while it waits for an answer. */
  get idleSinceMs(): number | null {
    return this.#busy ? null : this.#lastHeardMs;
  }

  #receive(bytes: Uint8Array): void {
    this.#lastHeardMs = this.#ends.nowMs();
    try {
      this.#zmtp.receive(bytes);
    } catch (error) {
      if (!(error instanceof MooncakeKvError)) throw error;
      this.cutOff(error.message);
    }
    this.#account();
  }

  #take(frames: readonly Uint8Array[]): void {
    if (this.#socket.destroyed) return;
    const { waitingMax } = this.#limits;
    this.#messageBytes += bytesOf(frames);
    if (this.#waiting.push(frames) > waitingMax)
      this.cutOff(`more than ${waitingMax} of its messages wait for an answer`);
    else this.#next();
  }

  #next(): void {
    if (this.#busy || this.#socket.destroyed) return;
    const frames = this.#waiting.shift();
    if (frames === undefined) return;
    this.#busy = true;
    this.#ends.serve(frames, (reply) => {
      this.#busy = false;
      this.#messageBytes -= bytesOf(frames);
      if (!this.#socket.destroyed) this.#answer(reply);
      this.#next();
      this.#account();
    });
  }

  #answer(reply: readonly Uint8Array[]): void {
    const { answerBytesMax } = this.#limits;
    this.#zmtp.send(reply);
    if (this.#socket.writableLength > answerBytesMax)
      this.cutOff(`it has not read more than ${answerBytesMax} bytes of answers`);
  }

  /** Reads on while there is room. Whoever is paused has a whole message here, whose answer makes room. */
  #account(): void {
    const socket = this.#socket;
    if (socket.destroyed) return;
    const held = this.#messageBytes + this.#zmtp.heldBytes;
    const room = this.#ends.hold(held - this.#held);
    this.#held = held;
    if (!room) this.cutOff("all connections together hold too many bytes");
    else if (held >= this.#limits.heldBytesMax) socket.pause();
    else if (socket.isPaused()) socket.resume();
  }

  cutOff(problem: string): void {
    if (this.#socket.destroyed) return;
    this.#ends.cutOff(problem);
    this.#socket.destroy();
  }
}

function bytesOf(frames: readonly Uint8Array[]): number {
  return frames.reduce((sum, { byteLength }) => sum + byteLength, 0);
}
