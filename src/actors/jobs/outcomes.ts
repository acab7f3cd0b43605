import { EngineCode } from "../../store/engine.ts";
import {
  OUTCOME_CANCELLED,
  OUTCOME_ENGINE_DOWN,
  OUTCOME_ENGINE_ERROR,
  OUTCOME_HIT,
  OUTCOME_IDENTITY_MISMATCH,
  OUTCOME_MISS,
  OUTCOME_NO_SPACE,
} from "../messages.ts";

/**
 * The typed outcome of an engine code. A key that is not there (any more) is no fault of the engine: MISS. Nor is a value that was
 * refused, which is as good as not there; a put of another in its place is called off while somebody reads it. Nor is a value of
 * another size: somebody else's bytes lie under our key, and however often it is met, the engine is not down for that.
 */
export function outcomeOfCode(code: number): number {
  if (code >= 0) return OUTCOME_HIT;
  switch (code) {
    case EngineCode.ENGINE_DOWN:
    case EngineCode.CLOSED:
      return OUTCOME_ENGINE_DOWN;
    case EngineCode.OBJECT_NOT_FOUND:
    case EngineCode.CHECKSUM_MISMATCH:
    case EngineCode.REMOVED_UNDER_READ:
    case EngineCode.VALUE_UNREADABLE:
      return OUTCOME_MISS;
    case EngineCode.OBJECT_HAS_LEASE:
      return OUTCOME_CANCELLED;
    case EngineCode.BUFFER_SMALLER:
    case EngineCode.BUFFER_LARGER:
      return OUTCOME_IDENTITY_MISMATCH;
    case EngineCode.NO_AVAILABLE_HANDLE:
      return OUTCOME_NO_SPACE;
    default:
      return OUTCOME_ENGINE_ERROR;
  }
}

/** What a job ends with when `next` comes on top of `known`: the first reason stays, but any failure says more than a miss. */
export function worseOutcome(known: number, next: number): number {
  if (known === OUTCOME_HIT) return next;
  if (known === OUTCOME_MISS && next !== OUTCOME_HIT) return next;
  return known;
}

/** Result of key `index`: in a batch that failed as a whole no key counts as moved. */
export function keyCode(status: number, result: number): number {
  return status < 0 && result >= 0 ? status : result;
}
