/**
 * ZMTP 3, the protocol that ZeroMQ sockets speak on a stream, as far as a REQ or DEALER and a REP socket need it: greeting, NULL
 * mechanism, messages of several frames, PING. (The zeromq package ends the whole process when a worker thread that waits for a
 * message is ended, as any actor's may be; this is what is left when that must not happen.)
 *
 * Frame: flags (1 more follow, 2 the size takes eight bytes, 4 command), size, body.
 */
import { MooncakeKvError } from "../errors.ts";

export type ZmtpSocketType = "REP" | "DEALER";
/** Which sockets may talk to which. */
const PEERS: { readonly [type in ZmtpSocketType]: readonly string[] } = {
  REP: ["REQ", "DEALER"],
  DEALER: ["REP", "ROUTER", "DEALER"],
};

const GREETING_BYTES = 64;
const VERSION_AT = 10;
const MECHANISM_AT = 12;
const MECHANISM_BYTES = 20;
const MORE = 1;
const LONG = 2;
const COMMAND = 4;
const SHORT_MAX = 255;
/** No command that is used here has more. */
const COMMAND_BYTES_MAX = 4096;
/** A larger buffer is given back when what made it so large is used. */
const BUFFER_KEPT_BYTES = 64 * 1024;
const BUFFER_MIN_BYTES = 4096;
const LATIN = "latin1";

export interface ZmtpEnds {
  /** Bytes for the peer, in this order. */
  readonly write: (bytes: Uint8Array) => void;
  /** The peer has said who it is: messages may be sent. */
  readonly ready: () => void;
  /** One whole message. The frames are the receiver's to keep. */
  readonly message: (frames: Uint8Array[]) => void;
}

/** Of one message. */
export interface ZmtpLimits {
  /** All frames together. */
  readonly messageBytesMax: number;
  readonly framesMax: number;
}

/** One connection. It has said hello when it is made; whatever arrives goes into `receive`. */
export class ZmtpConnection {
  readonly #type: ZmtpSocketType;
  readonly #ends: ZmtpEnds;
  readonly #limits: ZmtpLimits;
  /** Bytes [start, end) that arrived and are not used yet. */
  #buffer = new Uint8Array(BUFFER_MIN_BYTES);
  #start = 0;
  #end = 0;
  #greeted = false;
  #ready = false;
  #frames: Uint8Array[] = [];
  #framesBytes = 0;

  constructor(type: ZmtpSocketType, ends: ZmtpEnds, limits: ZmtpLimits) {
    this.#type = type;
    this.#ends = ends;
    this.#limits = limits;
    ends.write(greeting());
    ends.write(command("READY", [...property("Socket-Type", type), ...property("Identity", "")]));
  }

  get ready(): boolean {
    return this.#ready;
  }

  /** Memory that unfinished messages take. */
  get heldBytes(): number {
    return this.#buffer.byteLength + this.#framesBytes;
  }

  /** Only when ready. The frames are copied before this returns. */
  send(frames: readonly Uint8Array[]): void {
    frames.forEach((frame, index) => {
      this.#ends.write(head(index < frames.length - 1 ? MORE : 0, frame.byteLength));
      if (frame.byteLength > 0) this.#ends.write(frame);
    });
  }

  /** Throws INVALID_VALUE for what no such peer sends: close the connection then. */
  receive(bytes: Uint8Array): void {
    this.#store(bytes);
    if (!this.#greeted && !this.#readGreeting()) return;
    while (this.#readFrame());
    this.#giveBack();
  }

  #store(bytes: Uint8Array): void {
    const held = this.#end - this.#start;
    if (this.#buffer.byteLength - this.#end < bytes.byteLength) {
      const size = Math.max(2 * held, held + bytes.byteLength, BUFFER_MIN_BYTES);
      const into = size > this.#buffer.byteLength ? new Uint8Array(size) : this.#buffer;
      into.set(this.#buffer.subarray(this.#start, this.#end));
      this.#buffer = into;
      this.#start = 0;
      this.#end = held;
    }
    this.#buffer.set(bytes, this.#end);
    this.#end += bytes.byteLength;
  }

  /** Peers are few, but stay: one long message must not cost its memory for ever. */
  #giveBack(): void {
    const held = this.#end - this.#start;
    if (this.#buffer.byteLength <= BUFFER_KEPT_BYTES || held > this.#buffer.byteLength / 4) return;
    const into = new Uint8Array(Math.max(2 * held, BUFFER_MIN_BYTES));
    into.set(this.#buffer.subarray(this.#start, this.#end));
    this.#buffer = into;
    this.#start = 0;
    this.#end = held;
  }

  #readGreeting(): boolean {
    const held = this.#buffer.subarray(this.#start, this.#end);
    const signed = held[0] === 0xff && (held.byteLength < 10 || (held[9]! & 1) === 1);
    if (held.byteLength > 0 && !signed) refuse("signature", held[0], "is not ZeroMQ's");
    if (held.byteLength > VERSION_AT && held[VERSION_AT]! < 3)
      refuse("version", held[VERSION_AT], "is older than 3");
    if (held.byteLength < GREETING_BYTES) return false;
    const mechanism = text(held.subarray(MECHANISM_AT, MECHANISM_AT + MECHANISM_BYTES));
    if (mechanism.replace(/\0+$/, "") !== "NULL")
      refuse("mechanism", mechanism.replace(/\0+$/, ""), "is not NULL");
    this.#start += GREETING_BYTES;
    this.#greeted = true;
    return true;
  }

  #readFrame(): boolean {
    const held = this.#buffer.subarray(this.#start, this.#end);
    const flags = held[0];
    if (flags === undefined) return false;
    if (flags > (MORE | LONG | COMMAND)) refuse("flags", flags, "are none of a frame");
    const headBytes = (flags & LONG) === 0 ? 2 : 9;
    if (held.byteLength < headBytes) return false;
    const size = headBytes === 2 ? held[1]! : longSize(held);
    const { messageBytesMax, framesMax } = this.#limits;
    const isCommand = (flags & COMMAND) !== 0;
    if (isCommand && size > COMMAND_BYTES_MAX)
      refuse("command", size, `is longer than ${COMMAND_BYTES_MAX} bytes`);
    if (!isCommand && !this.#ready) refuse("frame", size, "comes before the handshake is over");
    // Known by its head: nothing of it is waited for.
    if (!isCommand && this.#framesBytes + size > messageBytesMax)
      refuse("message", this.#framesBytes + size, `is longer than ${messageBytesMax} bytes`);
    if (held.byteLength < headBytes + size) return false;
    const body = held.slice(headBytes, headBytes + size);
    this.#start += headBytes + size;
    if (isCommand) this.#command(body);
    else {
      this.#frames.push(body);
      this.#framesBytes += size;
      if (this.#frames.length > framesMax)
        refuse("frames", framesMax, "are too many for one message");
      if ((flags & MORE) === 0) {
        this.#framesBytes = 0;
        this.#ends.message(this.#frames.splice(0));
      }
    }
    return true;
  }

  #command(body: Uint8Array): void {
    const nameBytes = body[0] ?? 0;
    const name = text(body.subarray(1, 1 + nameBytes));
    const data = body.subarray(1 + nameBytes);
    if (name === "READY" && !this.#ready) {
      const type = properties(data).get("socket-type") ?? "";
      if (!PEERS[this.#type].includes(type))
        refuse("Socket-Type", type, `does not talk to a ${this.#type} socket`);
      this.#ready = true;
      this.#ends.ready();
    } else if (name === "PING") {
      // Two bytes of time to live, then what the answer repeats.
      this.#ends.write(command("PONG", [...data.subarray(2)]));
    } else if (name === "ERROR") refuse("ERROR", text(data.subarray(1)), "was sent by the peer");
    // Others (PONG, SUBSCRIBE, ...) mean nothing here.
  }
}

/** A message as REP sockets see it: the way back (all frames up to and with the first empty one), and what is asked. */
export function splitEnvelope(
  frames: readonly Uint8Array[],
): { readonly envelope: readonly Uint8Array[]; readonly body: readonly Uint8Array[] } | null {
  const delimiter = frames.findIndex((frame) => frame.byteLength === 0);
  if (delimiter < 0) return null;
  return { envelope: frames.slice(0, delimiter + 1), body: frames.slice(delimiter + 1) };
}

function greeting(): Uint8Array {
  const bytes = new Uint8Array(GREETING_BYTES);
  bytes[0] = 0xff;
  bytes[9] = 0x7f;
  bytes[VERSION_AT] = 3;
  bytes.set(Buffer.from("NULL", LATIN), MECHANISM_AT);
  return bytes;
}

function command(name: string, data: readonly number[]): Uint8Array {
  const body = Uint8Array.from([name.length, ...Buffer.from(name, LATIN), ...data]);
  return Uint8Array.from([...head(COMMAND, body.byteLength), ...body]);
}

function head(flags: number, size: number): Uint8Array {
  if (size <= SHORT_MAX) return Uint8Array.of(flags, size);
  const bytes = new Uint8Array(9);
  bytes[0] = flags | LONG;
  // The high word is 0: no frame has 4 GiB.
  new DataView(bytes.buffer).setUint32(5, size);
  return bytes;
}

function longSize(held: Uint8Array): number {
  const view = new DataView(held.buffer, held.byteOffset, held.byteLength);
  return view.getUint32(1) * 2 ** 32 + view.getUint32(5);
}

function property(name: string, value: string): number[] {
  return [
    name.length,
    ...Buffer.from(name, LATIN),
    0,
    0,
    0,
    value.length,
    ...Buffer.from(value, LATIN),
  ];
}

/** Names are compared without regard to case. */
function properties(data: Uint8Array): Map<string, string> {
  const found = new Map<string, string>();
  for (let at = 0; at < data.byteLength;) {
    const nameEnd = at + 1 + data[at]!;
    if (nameEnd + 4 > data.byteLength) refuse("READY", data.byteLength, "ends inside a property");
    const size = new DataView(data.buffer, data.byteOffset + nameEnd, 4).getUint32(0);
    const end = nameEnd + 4 + size;
    if (end > data.byteLength) refuse("READY", data.byteLength, "ends inside a property");
    found.set(
      text(data.subarray(at + 1, nameEnd)).toLowerCase(),
      text(data.subarray(nameEnd + 4, end)),
    );
    at = end;
  }
  return found;
}

function text(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString(LATIN);
}

function refuse(field: string, value: unknown, problem: string): never {
  throw new MooncakeKvError({
    code: "INVALID_VALUE",
    field: `zmtp.${field}`,
    value,
    problem,
    remedy:
      "Connect a ZeroMQ 4 socket of the kind that the lookup RPC uses, REQ to REP, without security.",
  });
}
