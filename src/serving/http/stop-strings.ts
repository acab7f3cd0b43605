/**
 * Finds the first of several stop strings in text that comes in pieces. Text that may turn out to be the beginning of a stop
 * string is held back until that is decided, so what was given out never has to be taken back.
 */
export class StopStrings {
  readonly #stops: readonly string[];
  #held = "";
  #stopped = false;

  /** No stop string may be empty. */
  constructor(stops: readonly string[]) {
    this.#stops = stops;
  }

  get stopped(): boolean {
    return this.#stopped;
  }

  /** Text that belongs to the answer for sure. Nothing more comes once a stop string was found. */
  push(piece: string): string {
    if (this.#stopped) return "";
    const text = this.#held + piece;
    const found = this.#stops.map((stop) => text.indexOf(stop)).filter((at) => at >= 0);
    if (found.length > 0) {
      this.#stopped = true;
      this.#held = "";
      return text.slice(0, Math.min(...found));
    }
    const safe = text.length - this.#possibleStart(text);
    this.#held = text.slice(safe);
    return text.slice(0, safe);
  }

  /** The answer has ended: what was held back belongs to it. */
  flush(): string {
    const rest = this.#held;
    this.#held = "";
    return rest;
  }

  /** Length of the longest end of `text` with which a stop string begins. */
  #possibleStart(text: string): number {
    let longest = 0;
    for (const stop of this.#stops) {
      for (let length = Math.min(stop.length - 1, text.length); length > longest; length--) {
        if (text.endsWith(stop.slice(0, length))) longest = length;
      }
    }
    return longest;
  }
}
