import { EngineCode } from "./engine.ts";

export interface ModelPoolOptions {
  readonly bytesMax: number;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  /** False: a full pool refuses puts (NO_AVAILABLE_HANDLE) instead of evicting. Default true. */
  readonly evicts?: boolean;
}

/** Of that many oldest keys one is drawn for eviction, so that runs do not depend on a strict order. */
const EVICTION_CANDIDATES = 4;

/** The pool of the simulated engine, shared by any number of channels: key text to value, oldest use first. */
export class ModelPool {
  evictions = 0;
  refusals = 0;
  #bytesUsed = 0;
  readonly #options: ModelPoolOptions;
  readonly #values = new Map<string, Uint8Array>();

  constructor(options: ModelPoolOptions) {
    this.#options = options;
  }

  get bytesUsed(): number {
    return this.#bytesUsed;
  }
  get size(): number {
    return this.#values.size;
  }
  keys(): string[] {
    return [...this.#values.keys()];
  }
  /** For tests and for checks of what is stored; does not count as a use. */
  peek(key: string): Uint8Array | undefined {
    return this.#values.get(key);
  }
  has(key: string): boolean {
    return this.get(key) !== undefined;
  }

  get(key: string): Uint8Array | undefined {
    const value = this.#values.get(key);
    if (value === undefined) return undefined;
    this.#values.delete(key);
    this.#values.set(key, value);
    return value;
  }

  /** Bytes stored or found there already, or NO_AVAILABLE_HANDLE. The first value of a key stays. */
  put(key: string, value: Uint8Array): number {
    const present = this.get(key);
    if (present !== undefined) return present.length;
    while (this.#bytesUsed + value.length > this.#options.bytesMax) {
      const mayEvict = this.#options.evicts ?? true;
      if (mayEvict && value.length <= this.#options.bytesMax && this.evictOne()) continue;
      this.refusals++;
      return EngineCode.NO_AVAILABLE_HANDLE;
    }
    this.#values.set(key, value);
    this.#bytesUsed += value.length;
    return value.length;
  }

  remove(key: string): boolean {
    const value = this.#values.get(key);
    if (value === undefined) return false;
    this.#values.delete(key);
    this.#bytesUsed -= value.length;
    return true;
  }
  clear(): void {
    this.#values.clear();
    this.#bytesUsed = 0;
  }

  /** Evicts one of the oldest keys; false when the pool is empty. */
  evictOne(): boolean {
    const candidates = Math.min(EVICTION_CANDIDATES, this.#values.size);
    let left = Math.floor(this.#options.random() * candidates);
    for (const key of this.#values.keys()) {
      if (left-- > 0) continue;
      this.evictions++;
      return this.remove(key);
    }
    return false;
  }
}
