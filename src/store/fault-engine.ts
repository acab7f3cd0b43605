import { OPERATION_EXISTS, OPERATION_GET, OPERATION_PUT } from "../blocks/layout.ts";
import { EngineCode } from "./engine.ts";

/** What a simulated channel asks before it does something. All answers come from one seed, so a run can be repeated. */
export interface EngineFaults {
  /** Factor on the batch's time in the engine. */
  slowness(): number;
  /** Status of a whole batch, decided when it completes: OK, or a code that then stands for all its keys. */
  batchStatus(operation: number): number;
  /** Result of one key: OK to go on, or the code to answer with. */
  keyResult(operation: number): number;
  /** True: evict the key right before it is got. */
  evicts(): boolean;
}

export const NO_FAULTS: EngineFaults = {
  slowness: () => 1,
  batchStatus: () => EngineCode.OK,
  keyResult: () => EngineCode.OK,
  evicts: () => false,
};

/** Probabilities from 0 to 1; absent: 0. */
export interface FaultOptions {
  /** A key of a put or get fails with ENGINE_ERROR. */
  readonly keyFailure?: number;
  /** A whole batch fails with ENGINE_ERROR; its bytes may have moved or not. */
  readonly batchFailure?: number;
  /** A batch takes `slowFactor` (default 20) times as long. */
  readonly slowBatch?: number;
  readonly slowFactor?: number;
  /** A key is evicted between exists and get. */
  readonly eviction?: number;
  /** A get finds a value of another size (BUFFER_SMALLER or BUFFER_LARGER). */
  readonly sizeMismatch?: number;
  /** A put finds no room (NO_AVAILABLE_HANDLE). */
  readonly noSpace?: number;
  /** A stored value fails its checksum at a get (CHECKSUM_MISMATCH). */
  readonly checksumMismatch?: number;
  /** Virtual times between which the engine is lost: every batch answers ENGINE_DOWN. */
  readonly outages?: readonly (readonly [downMs: number, upMs: number])[];
}

/** Seeded faults for a simulated channel. `random` and `nowMs` are the simulation's own. */
export function createFaults(
  options: FaultOptions,
  random: () => number,
  nowMs: () => number,
): EngineFaults {
  const chance = (probability = 0): boolean => probability > 0 && random() < probability;
  const down = (): boolean =>
    (options.outages ?? []).some(([downMs, upMs]) => nowMs() >= downMs && nowMs() < upMs);
  return {
    slowness: () => (chance(options.slowBatch) ? (options.slowFactor ?? 20) : 1),
    batchStatus: () => {
      if (down()) return EngineCode.ENGINE_DOWN;
      return chance(options.batchFailure) ? EngineCode.ENGINE_ERROR : EngineCode.OK;
    },
    keyResult: (operation) => {
      if (down()) return EngineCode.ENGINE_DOWN;
      if (operation === OPERATION_EXISTS) return EngineCode.OK;
      if (chance(options.keyFailure)) return EngineCode.ENGINE_ERROR;
      if (operation === OPERATION_PUT && chance(options.noSpace))
        return EngineCode.NO_AVAILABLE_HANDLE;
      if (operation !== OPERATION_GET) return EngineCode.OK;
      if (chance(options.checksumMismatch)) return EngineCode.CHECKSUM_MISMATCH;
      if (!chance(options.sizeMismatch)) return EngineCode.OK;
      return random() < 0.5 ? EngineCode.BUFFER_SMALLER : EngineCode.BUFFER_LARGER;
    },
    evicts: () => chance(options.eviction),
  };
}
