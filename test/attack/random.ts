import { seededRandom } from "../integration/support/seeded-random.ts";

/** Seeded random numbers: an input is known again by target, seed and number. */
export class SeededRandom {
  readonly below: (below: number) => number;

  constructor(seed: number) {
    this.below = seededRandom(seed);
  }

  pick<Item>(items: readonly Item[]): Item {
    return items[this.below(items.length)]!;
  }
}
