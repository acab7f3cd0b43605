/** Sequence numbers of batches: 8 bytes, big-endian. -1 ends a replay. */

export const END_OF_REPLAY = new Uint8Array(8).fill(0xff);

export function sequenceBytes(sequence: number): Uint8Array {
  const bytes = new Uint8Array(8);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, Math.floor(sequence / 2 ** 32));
  view.setUint32(4, sequence % 2 ** 32);
  return bytes;
}

/** null for bytes that are no sequence number below 2^53. As in Python any length will do. */
export function sequenceOf(bytes: Uint8Array): number | null {
  let sequence = 0;
  for (const byte of bytes) {
    sequence = sequence * 256 + byte;
    if (sequence > Number.MAX_SAFE_INTEGER) return null;
  }
  return sequence;
}

export function isEndOfReplay(bytes: Uint8Array): boolean {
  return bytes.length === 8 && bytes.every((byte) => byte === 0xff);
}

/** What a sequence number says about those before it. */
export type Arrival =
  | { readonly kind: "next" }
  /** Batches [from, to) have not come. */
  | { readonly kind: "gap"; readonly from: number; readonly to: number }
  /** The publisher counts anew: what is known of its blocks is void. */
  | { readonly kind: "restart" };

/** Which batch of one publisher is expected next. PUB/SUB loses messages, but neither repeats nor reorders them. */
export class SequenceTracker {
  #next: number | null;

  /** `first`: the first batch that matters; null: whatever comes first. */
  constructor(first: number | null = null) {
    this.#next = first;
  }

  get next(): number | null {
    return this.#next;
  }

  arrived(sequence: number): Arrival {
    const expected = this.#next;
    this.#next = sequence + 1;
    if (expected === null || sequence === expected) return { kind: "next" };
    return sequence > expected
      ? { kind: "gap", from: expected, to: sequence }
      : { kind: "restart" };
  }
}
