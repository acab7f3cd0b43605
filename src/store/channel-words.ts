import {
  BATCH_HEADER_WORDS,
  batchWords,
  CHANNEL_HEADER_WORDS,
  channelWords,
  COMPLETION_WORDS,
  completionSlots,
  ENTRY_WORDS,
  LINE_WORDS,
  type ChannelShape,
} from "../blocks/layout.ts";
import { MooncakeKvError } from "../errors.ts";

/** Where everything of an engine channel lies in its words, for the actor's side and for the simulated engine's side. */
export class ChannelWords {
  readonly words: Int32Array;
  readonly shape: ChannelShape;
  readonly ringMask: number;
  readonly #batches: number;
  readonly #batchWords: number;
  readonly #entries: Int32Array[] = [];
  readonly #results: Int32Array[] = [];
  readonly #tiers: Int32Array[] = [];

  constructor(words: Int32Array, shape: ChannelShape) {
    if (words.length < channelWords(shape)) {
      throw new MooncakeKvError({
        code: "CAPACITY",
        field: "words",
        value: words.length,
        problem: `a channel of ${shape.batchSlots} batches of ${shape.keysPerBatchMax} keys has ${channelWords(shape)} words`,
        remedy: "Size the memory with channelWords().",
      });
    }
    this.words = words;
    this.shape = shape;
    this.ringMask = completionSlots(shape) - 1;
    this.#batchWords = batchWords(shape);
    const ring = Math.ceil((completionSlots(shape) * COMPLETION_WORDS) / LINE_WORDS) * LINE_WORDS;
    this.#batches = CHANNEL_HEADER_WORDS + ring;
    const keys = shape.keysPerBatchMax;
    for (let slot = 0; slot < shape.batchSlots; slot++) {
      const entries = this.batch(slot) + BATCH_HEADER_WORDS;
      const results = entries + keys * ENTRY_WORDS;
      this.#entries.push(words.subarray(entries, results));
      this.#results.push(words.subarray(results, results + keys));
      this.#tiers.push(words.subarray(results + keys, results + 2 * keys));
    }
  }

  /** First word of a batch's header. */
  batch(slot: number): number {
    return this.#batches + slot * this.#batchWords;
  }
  /** First word of the ring entry at `position` (wraps). */
  completion(position: number): number {
    return CHANNEL_HEADER_WORDS + (position & this.ringMask) * COMPLETION_WORDS;
  }
  entries(slot: number): Int32Array {
    return this.#entries[slot]!;
  }
  results(slot: number): Int32Array {
    return this.#results[slot]!;
  }
  tiers(slot: number): Int32Array {
    return this.#tiers[slot]!;
  }
}
