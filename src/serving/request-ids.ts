/** Requests whose text ids are kept: a trace is written a while after the request has ended. */
const IDS_MAX = 65_536;

/** Text ids of (slot, generation), for the trace. The oldest are forgotten first. */
export class RequestIds {
  readonly #ids = new Map<number, string>();

  set(slot: number, generation: number, id: string): void {
    const oldest = this.#ids.keys().next();
    if (this.#ids.size >= IDS_MAX && oldest.done !== true) this.#ids.delete(oldest.value);
    this.#ids.set(key(slot, generation), id);
  }

  of(slot: number, generation: number): string | undefined {
    return this.#ids.get(key(slot, generation));
  }
}

/** Exact as long as there are fewer than 2^21 slots. */
function key(slot: number, generation: number): number {
  return slot * 0x1_0000_0000 + (generation >>> 0);
}
