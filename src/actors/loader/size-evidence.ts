/** So many different keys of so many requests with one and the same wrong size, and none with the right one, are no accident. */
export const MISMATCHED_KEYS = 8;
export const MISMATCHED_REQUESTS = 3;
/** Wrong sizes that are followed at a time; with more the oldest is forgotten. */
const SIZES_MAX = 4;

/** Values of another size lie under our keys, and one of these keys: number of its prefix in the key space, and its digest. */
export interface SizeMismatch {
  readonly wantedBytes: number;
  readonly foundBytes: number;
  readonly prefix: number;
  readonly digest: Int32Array;
}

/** A key whose value has another size, and the request that asked for it. */
export interface WrongValue {
  readonly wantedBytes: number;
  readonly foundBytes: number;
  readonly prefix: number;
  readonly digest: Int32Array;
  readonly slot: number;
  readonly generation: number;
}

/** For the log, and for whoever asks why the pool is closed. */
export function mismatchText({ wantedBytes, foundBytes }: SizeMismatch): string {
  return (
    `values of ${foundBytes} bytes lie under this member's keys, and its blocks have ${wantedBytes}: other members (a vLLM that publishes ` +
    "no identity?) have another element type, other heads or another tensor-parallel size. The pool is closed for this member, which " +
    "computes. Make them agree (dtype, tensor-parallel size or store_tp_size on all sides), give this one another cache_prefix, or " +
    "reset the pool by force."
  );
}

interface Followed {
  readonly wantedBytes: number;
  readonly foundBytes: number;
  readonly keys: { readonly prefix: number; readonly digest: Int32Array }[];
  readonly requests: { readonly slot: number; readonly generation: number }[];
}

/**
 * Tells a pool whose other members keep values of another size under our keys (another element size, other heads a rank) from single
 * strange values: it takes 8 different keys of 3 requests. A value of the right size among them ends the suspicion: then some of what
 * is there is ours. Bounded; what is remembered depends on the results alone.
 */
export class SizeEvidence {
  #followed: Followed[] = [];

  /** A value of the right size arrived. */
  right(wantedBytes: number): void {
    if (this.#followed.length === 0) return;
    this.#followed = this.#followed.filter((each) => each.wantedBytes !== wantedBytes);
  }

  /** Returns the mismatch once there is enough evidence for one, and begins anew. */
  wrong(value: WrongValue): SizeMismatch | null {
    const followed = this.#of(value);
    this.#addKey(followed, value);
    this.#addRequest(followed, value);
    const enough =
      followed.keys.length >= MISMATCHED_KEYS && followed.requests.length >= MISMATCHED_REQUESTS;
    if (!enough) return null;
    this.#followed = [];
    const { wantedBytes, foundBytes, keys } = followed;
    return { wantedBytes, foundBytes, ...keys[0]! };
  }

  #of({ wantedBytes, foundBytes }: WrongValue): Followed {
    const known = this.#followed.find(
      (each) => each.wantedBytes === wantedBytes && each.foundBytes === foundBytes,
    );
    if (known !== undefined) return known;
    const begun: Followed = { wantedBytes, foundBytes, keys: [], requests: [] };
    if (this.#followed.length === SIZES_MAX) this.#followed.shift();
    this.#followed.push(begun);
    return begun;
  }

  #addKey({ keys }: Followed, { prefix, digest }: WrongValue): void {
    if (keys.length === MISMATCHED_KEYS) return;
    const known = keys.some(
      (key) => key.prefix === prefix && key.digest.every((word, at) => word === digest[at]),
    );
    if (!known) keys.push({ prefix, digest });
  }

  #addRequest({ requests }: Followed, { slot, generation }: WrongValue): void {
    if (requests.length === MISMATCHED_REQUESTS) return;
    const known = requests.some((each) => each.slot === slot && each.generation === generation);
    if (!known) requests.push({ slot, generation });
  }
}
