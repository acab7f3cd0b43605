import {
  JOB_LIVE_WORD,
  JOB_TICKET,
  NONE,
  SEQUENCE_GENERATION,
  SEQUENCE_SAMPLE,
  SEQUENCE_SLOT,
  SEQUENCE_START,
  SEQUENCE_TOKENS,
  SEQUENCE_TOP_COUNT,
  SEQUENCE_WORDS,
  STEP_HEADER_WORDS,
  STEP_NUMBER,
  STEP_SEQUENCES,
} from "../../blocks/layout.ts";
import { STEP_BUFFERS, type Tables } from "../../blocks/tables.ts";
import type { ConnectorMetadata, ConnectorOutput } from "../../connector/hooks.ts";
import { brokenInvariant } from "../../errors.ts";
import { ACTOR_MODEL, OUTCOME_CANCELLED } from "../messages.ts";
import type { ActorContext } from "../step.ts";

/**
 * The scheduling step in flight: one at a time, in alternating step buffers, numbered over restarts.
 *
 * A fence is a step without sequences in the other buffer. The model works its mailbox off in order, so once it has answered
 * a fence, nothing that was sent before is being computed any more. It is sent when the model or the scheduler runs anew:
 * only then is it certain that a step was lost, and that nobody writes blocks or reads rows behind the scheduler's back.
 */
export class StepState {
  /** Number of the step that the model computes, 0: none. */
  inFlight = 0;
  tries = 0;
  /** Number of the fence that is waited for, 0: none. */
  fence = 0;
  /** Sequences entered in the buffer that is being filled. */
  sequences = 0;
  tokens = 0;
  /** Tokens that the step being filled may still take, and how many of its sequences may still be sampled. */
  tokensLeft = 0;
  samplesLeft = 0;
  readonly #tables: Tables;
  #number: number;
  readonly #held: HeldSaves;

  constructor(tables: Tables) {
    this.#tables = tables;
    this.#number = 0;
    for (let step = 0; step < STEP_BUFFERS; step++)
      this.#number = Math.max(this.#number, tables.steps[tables.step(step) + STEP_NUMBER]!);
    this.#held = new HeldSaves(tables);
  }

  busy(): boolean {
    return this.inFlight !== 0 || this.fence !== 0;
  }
  /** Number that the step being filled will have. */
  nextNumber(): number {
    return this.#number + 1;
  }
  /** Word offset of sequence `index` of step `number`. */
  sequence(number: number, index: number): number {
    return this.#start(number) + STEP_HEADER_WORDS + index * SEQUENCE_WORDS;
  }

  begin(tokens: number, samples: number): void {
    if (this.busy()) brokenInvariant("a step is filled while one is in flight", this.inFlight);
    this.sequences = 0;
    this.tokens = 0;
    this.tokensLeft = tokens;
    this.samplesLeft = samples;
  }
  /** Nothing more is entered. */
  end(): void {
    this.tokensLeft = 0;
  }

  enter(slot: number, generation: number, start: number, tokens: number, sample: boolean): void {
    const at = this.sequence(this.nextNumber(), this.sequences++);
    const words = this.#tables.steps;
    words[at + SEQUENCE_SLOT] = slot;
    words[at + SEQUENCE_GENERATION] = generation;
    words[at + SEQUENCE_START] = start;
    words[at + SEQUENCE_TOKENS] = tokens;
    words[at + SEQUENCE_SAMPLE] = sample ? 1 : 0;
    words[at + SEQUENCE_TOP_COUNT] = 0;
    this.tokens += tokens;
    this.tokensLeft -= tokens;
    if (sample) this.samplesLeft--;
  }

  /** Hands the filled buffer to the model. */
  send(context: ActorContext): void {
    this.#write(this.sequences);
    this.inFlight = this.#number;
    this.tries = 1;
    this.#run(context, this.#number);
  }

  sendAgain(context: ActorContext): void {
    this.tries++;
    this.#run(context, this.inFlight);
  }

  sendFence(context: ActorContext): void {
    // The fence must not lie in the buffer of the step in flight, whose contents are still needed.
    if (this.inFlight !== 0 && (this.#number + 1 - this.inFlight) % STEP_BUFFERS === 0)
      this.#number++;
    this.#write(0);
    this.fence = this.#number;
    this.#run(context, this.#number);
  }

  hold(metadata: ConnectorMetadata): void {
    this.#held.add(metadata);
  }
  /** Saves of the step in flight: to be started when it is over. */
  takeSaves(): ConnectorMetadata | null {
    return this.#held.take();
  }
  /** The step failed for good: its saves end as cancelled, because the bytes were never computed. */
  takeSavesAsCancelled(): ConnectorOutput | null {
    return this.#held.takeAsCancelled();
  }

  #write(sequences: number): void {
    const start = this.#start(++this.#number);
    this.#tables.steps[start + STEP_SEQUENCES] = sequences;
    this.#tables.steps[start + STEP_NUMBER] = this.#number;
  }
  #run(context: ActorContext, number: number): void {
    context.send(ACTOR_MODEL, { kind: "runStep", step: number % STEP_BUFFERS, number });
  }
  #start(number: number): number {
    return this.#tables.step(number % STEP_BUFFERS);
  }
}

/**
 * Copies of metadata's saves: the connector reuses its object at the next build, which may come while the step runs. A step may
 * also outlast the deadline of its saves: the connector has released those then, and their records may be other jobs by now, so
 * each is held with its ticket and dropped when that is another one.
 */
class HeldSaves {
  readonly #tables: Tables;
  readonly #tickets: Int32Array;
  readonly #metadata: ConnectorMetadata;
  /** Shares the array: what is taken is used up before anything is held again. */
  readonly #starting: ConnectorMetadata;
  readonly #cancelled: ConnectorOutput;

  constructor(tables: Tables) {
    const { jobSlots } = tables.dimensions;
    this.#tables = tables;
    this.#tickets = new Int32Array(jobSlots);
    const saves = new Int32Array(jobSlots);
    this.#metadata = {
      loads: new Int32Array(0),
      loadCount: 0,
      saves,
      saveCount: 0,
      hasSyncLoads: false,
    };
    this.#starting = { ...this.#metadata };
    this.#cancelled = {
      doneLoads: new Int32Array(0),
      doneLoadCount: 0,
      doneSaves: saves,
      doneSaveCount: 0,
      badChunks: new Int32Array(0).fill(NONE),
      loadOutcomes: new Int32Array(0),
      saveOutcomes: new Int32Array(jobSlots).fill(OUTCOME_CANCELLED),
    };
  }

  add(metadata: ConnectorMetadata): void {
    const held = this.#metadata;
    this.#dropReleased();
    for (let index = 0; index < metadata.saveCount; index++) {
      const job = metadata.saves[index]!;
      this.#tickets[held.saveCount] = this.#ticket(job);
      held.saves[held.saveCount++] = job;
    }
  }

  take(): ConnectorMetadata | null {
    this.#dropReleased();
    if (this.#metadata.saveCount === 0) return null;
    this.#starting.saveCount = this.#metadata.saveCount;
    this.#metadata.saveCount = 0;
    return this.#starting;
  }

  takeAsCancelled(): ConnectorOutput | null {
    this.#dropReleased();
    if (this.#metadata.saveCount === 0) return null;
    this.#cancelled.doneSaveCount = this.#metadata.saveCount;
    this.#metadata.saveCount = 0;
    return this.#cancelled;
  }

  #dropReleased(): void {
    const held = this.#metadata;
    let kept = 0;
    for (let index = 0; index < held.saveCount; index++) {
      const job = held.saves[index]!;
      // Pairs with the stores of the connector's scheduler side, which is this very thread.
      const live = Atomics.load(this.#tables.jobs, this.#tables.job(job) + JOB_LIVE_WORD) === 1;
      if (!live || this.#ticket(job) !== this.#tickets[index]) continue;
      this.#tickets[kept] = this.#tickets[index]!;
      held.saves[kept++] = job;
    }
    held.saveCount = kept;
  }

  #ticket(job: number): number {
    return this.#tables.jobs[this.#tables.job(job) + JOB_TICKET]!;
  }
}
