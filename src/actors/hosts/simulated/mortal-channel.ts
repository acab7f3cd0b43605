import type { EngineChannel } from "../../../store/engine.ts";

/** An engine channel whose calls are places where its actor may die; see `SimulatedHost.armDeath`. */
export class MortalChannel implements EngineChannel {
  readonly batchSlots: number;
  readonly keysPerBatchMax: number;
  readonly #channel: EngineChannel;
  readonly #countCall: () => void;

  constructor(channel: EngineChannel, countCall: () => void) {
    this.batchSlots = channel.batchSlots;
    this.keysPerBatchMax = channel.keysPerBatchMax;
    this.#channel = channel;
    this.#countCall = countCall;
  }

  acquire(): number {
    this.#countCall();
    return this.#channel.acquire();
  }
  submit(
    slot: number,
    operation: number,
    keySpaceId: number,
    count: number,
    tag: number,
    job: number,
  ): void {
    this.#countCall();
    this.#channel.submit(slot, operation, keySpaceId, count, tag, job);
    this.#countCall();
  }
  poll(): number {
    this.#countCall();
    return this.#channel.poll();
  }
  release(slot: number): void {
    this.#countCall();
    this.#channel.release(slot);
  }
  entries(slot: number): Int32Array {
    return this.#channel.entries(slot);
  }
  results(slot: number): Int32Array {
    return this.#channel.results(slot);
  }
  tiers(slot: number): Int32Array {
    return this.#channel.tiers(slot);
  }
  status(slot: number): number {
    return this.#channel.status(slot);
  }
  tag(slot: number): number {
    return this.#channel.tag(slot);
  }
  job(slot: number): number {
    return this.#channel.job(slot);
  }
  count(slot: number): number {
    return this.#channel.count(slot);
  }
  operation(slot: number): number {
    return this.#channel.operation(slot);
  }
  epoch(slot: number): number {
    return this.#channel.epoch(slot);
  }
  microseconds(slot: number): number {
    return this.#channel.microseconds(slot);
  }
  inFlight(): number {
    return this.#channel.inFlight();
  }
  forEachSubmitted(visit: (slot: number) => void): void {
    this.#channel.forEachSubmitted(visit);
  }
}
