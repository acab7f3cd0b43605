import { TemplateFault } from "./template-errors.ts";

/** Evaluated nodes and characters (64 for one step) of one rendering: about a second. */
const STEPS_MAX = 10_000_000;
/** Macros within macros. */
const DEPTH_MAX = 100;
/** Characters that a rendering may give. */
const OUTPUT_MAX = 1 << 24;

/** Bounds one rendering: a template that loops, recurses or writes without end becomes a TemplateFault. */
export class Meter {
  #steps = 0;
  #depth = 0;
  readonly #stepsMax: number;

  constructor(stepsMax: number = STEPS_MAX) {
    this.#stepsMax = stepsMax;
  }

  step(characters = 0): void {
    this.#steps += 1 + (characters >> 6);
    if (this.#steps <= this.#stepsMax) return;
    throw new TemplateFault(`it takes more than ${this.#stepsMax} steps: it loops without end`);
  }

  enter(): void {
    if (++this.#depth > DEPTH_MAX)
      throw new TemplateFault("its macros call each other without end");
  }

  leave(): void {
    this.#depth--;
  }

  output(characters: number): void {
    if (characters > OUTPUT_MAX)
      throw new TemplateFault(`it writes more than ${OUTPUT_MAX} characters`);
  }
}
