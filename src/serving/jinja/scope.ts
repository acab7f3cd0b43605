import type { Value } from "./values.ts";

/** Variables of a block; what is not here is looked for outside. */
export class Scope {
  readonly #outer: Scope | null;
  readonly #variables = new Map<string, Value>();

  constructor(outer: Scope | null) {
    this.#outer = outer;
  }

  get(name: string): Value | undefined {
    const own = this.#variables.get(name);
    return own !== undefined || this.#outer === null ? own : this.#outer.get(name);
  }

  /** In this block, never outside: a loop's body does not change what is around it. */
  set(name: string, value: Value): void {
    this.#variables.set(name, value);
  }
}
