/**
 * Back-pressure of a full pool, by life of a request (REQUEST_LIFE): once a put found no room, further saves of that request are skipped until a put
 * batch of another request succeeds. Asking on would only push out blocks that others have just written.
 */
export class Pressure {
  /** Saves skipped so far. */
  skipped = 0;
  readonly #life: Int32Array;
  /** Value of `#round` when the request was refused; any other: not refused. */
  readonly #refusedIn: Int32Array;
  #round = 1;
  #active = false;

  constructor(requestSlots: number) {
    this.#life = new Int32Array(requestSlots);
    this.#refusedIn = new Int32Array(requestSlots);
  }

  get active(): boolean {
    return this.#active;
  }

  refused(slot: number, life: number): void {
    this.#active = true;
    this.#refusedIn[slot] = this.#round;
    this.#life[slot] = life;
  }

  skips(slot: number, life: number): boolean {
    return this.#refusedIn[slot] === this.#round && this.#life[slot] === life;
  }

  /** A put batch was stored whole. One that was on its way when its own request was refused says nothing new. */
  succeeded(slot: number, life: number): void {
    if (!this.#active || this.skips(slot, life)) return;
    this.#active = false;
    this.#round = (this.#round + 1) | 0;
  }
}
