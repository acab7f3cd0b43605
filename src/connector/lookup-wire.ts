/**
 * The frames of vLLM's lookup RPC (ZeroMQ REQ and REP between a scheduler process and the first worker). Integers are
 * big-endian. Request: "lookup", tokens (u32), hash length (u16), all hashes in a row; or "reset". Reply to a lookup: hit tokens
 * (u32), then group and tail tokens (u32 each) for every group of a hit; older servers leave these out. Reply to a reset: a byte.
 */
import { MooncakeKvError } from "../errors.ts";

export interface LookupRequest {
  readonly kind: "lookup";
  readonly tokens: number;
  /** Bytes of one hash; 0 with no hashes. */
  readonly hashBytes: number;
  readonly hashes: Uint8Array;
}
export type WireRequest = LookupRequest | { readonly kind: "reset" };

export interface LookupReply {
  readonly hitTokens: number;
  /** Group and the tokens whose hash names its last block; empty from older servers and without a hit. */
  readonly tails: readonly (readonly [group: number, tokens: number])[];
}

export const LOOKUP_TAG = Uint8Array.from(Buffer.from("lookup"));
export const RESET_TAG = Uint8Array.from(Buffer.from("reset"));
export const RESET_DONE = Uint8Array.of(1);
export const RESET_FAILED = Uint8Array.of(0);

const U32_MAX = 0xffff_ffff;
const U16_MAX = 0xffff;
const TAIL_BYTES = 8;

/** Throws INVALID_VALUE for numbers that the frames cannot hold. */
export function encodeLookupRequest(request: Omit<LookupRequest, "kind">): Uint8Array[] {
  const { tokens, hashBytes, hashes } = request;
  const count = hashBytes === 0 ? 0 : hashes.byteLength / hashBytes;
  if (!Number.isInteger(count) || (hashBytes === 0 && hashes.byteLength > 0))
    refuse("hashes", hashes.byteLength, `are no whole hashes of ${hashBytes} bytes`);
  const length = count === 0 ? 0 : unsigned("hashBytes", hashBytes, U16_MAX);
  return [LOOKUP_TAG, u32(unsigned("tokens", tokens, U32_MAX)), u16(length), hashes];
}

/** Throws INVALID_VALUE for frames that are no request: the server answers such a peer with an error, and goes on. */
export function decodeWireRequest(frames: readonly Uint8Array[]): WireRequest {
  const [tag, tokens, length, hashes] = frames;
  if (tag !== undefined && equal(tag, RESET_TAG) && frames.length === 1) return { kind: "reset" };
  if (tag === undefined || !equal(tag, LOOKUP_TAG))
    refuse("frames[0]", text(tag), "is no known tag");
  if (
    tokens?.byteLength !== 4 ||
    length?.byteLength !== 2 ||
    hashes === undefined ||
    frames.length !== 4
  )
    refuse(
      "frames",
      frames.map((frame) => frame.byteLength),
      "are no lookup",
    );
  const hashBytes = view(length).getUint16(0);
  const whole = hashBytes === 0 ? hashes.byteLength === 0 : hashes.byteLength % hashBytes === 0;
  if (!whole) refuse("frames[3]", hashes.byteLength, `holds no whole hashes of ${hashBytes} bytes`);
  return { kind: "lookup", tokens: view(tokens).getUint32(0), hashBytes, hashes };
}

export function encodeLookupReply(reply: LookupReply): Uint8Array {
  const bytes = new Uint8Array(4 + TAIL_BYTES * reply.tails.length);
  view(bytes).setUint32(0, unsigned("hitTokens", reply.hitTokens, U32_MAX));
  reply.tails.forEach(([group, tokens], index) => {
    const at = 4 + TAIL_BYTES * index;
    view(bytes).setUint32(at, unsigned("tails.group", group, U32_MAX));
    view(bytes).setUint32(at + 4, unsigned("tails.tokens", tokens, U32_MAX));
  });
  return bytes;
}

/** null: not a reply to a lookup. The caller counts it as a failed lookup, which is a miss. */
export function decodeLookupReply(bytes: Uint8Array): LookupReply | null {
  if (bytes.byteLength < 4 || (bytes.byteLength - 4) % TAIL_BYTES !== 0) return null;
  const tails: [number, number][] = [];
  for (let at = 4; at < bytes.byteLength; at += TAIL_BYTES)
    tails.push([view(bytes).getUint32(at), view(bytes).getUint32(at + 4)]);
  return { hitTokens: view(bytes).getUint32(0), tails };
}

function u32(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  view(bytes).setUint32(0, value);
  return bytes;
}

function u16(value: number): Uint8Array {
  const bytes = new Uint8Array(2);
  view(bytes).setUint16(0, value);
  return bytes;
}

function view(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function equal(left: Uint8Array, right: Uint8Array): boolean {
  return left.byteLength === right.byteLength && left.every((byte, index) => byte === right[index]);
}

function text(bytes: Uint8Array | undefined): string | undefined {
  return bytes === undefined ? undefined : Buffer.from(bytes).toString("latin1");
}

function unsigned(field: string, value: number, max: number): number {
  if (!Number.isInteger(value) || value < 0 || value > max)
    refuse(field, value, `is no integer from 0 to ${max}`);
  return value;
}

function refuse(field: string, value: unknown, problem: string): never {
  throw new MooncakeKvError({
    code: "INVALID_VALUE",
    field,
    value,
    problem,
    remedy: "Send what vLLM 0.33 sends: both sides must speak the same version of the lookup RPC.",
  });
}
