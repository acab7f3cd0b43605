import { NONE } from "../../blocks/layout.ts";
import type { IdentityDifference } from "../../connector/identity/compare.ts";
import { poolKey } from "../../keys/pool-keys.ts";
import { EngineCode } from "../../store/engine.ts";
import type { EngineCalls } from "../../store/engine-calls.ts";
import type { TraceWriter } from "../../trace/events.ts";
import type { MismatchWords } from "../mismatch-words.ts";
import type { Log } from "../step.ts";

export interface SizeWatchOptions {
  readonly calls: Pick<EngineCalls, "call">;
  readonly mismatch: Pick<MismatchWords, "read" | "clear">;
  /** By the numbers of the key space. */
  readonly prefixes: readonly string[];
  readonly digestBytes: number;
  readonly timeoutMs: number;
  readonly trace: TraceWriter;
  readonly log: Log;
}

/**
 * What the runtime's thread knows of a pool that the loader has closed because values of another size lie under our keys. It looks
 * for one of these keys from time to time: without it, or with a value of the right size under it, the pool is open again, and
 * should it still be the wrong pool, three requests find that out anew.
 */
export class SizeWatch {
  readonly #options: SizeWatchOptions;

  constructor(options: SizeWatchOptions) {
    this.#options = options;
  }

  /** Empty: nothing is known against the pool. */
  differences(): readonly IdentityDifference[] {
    const found = this.#options.mismatch.read();
    if (found === null) return [];
    return [
      {
        field: "bytes.valueBytes",
        ours: String(found.wantedBytes),
        theirs: String(found.foundBytes),
      },
    ];
  }

  /** True when the pool is open again by this look. Without an answer it stays closed. */
  async look(): Promise<boolean> {
    const { calls, mismatch, prefixes, digestBytes, timeoutMs, log } = this.#options;
    const found = mismatch.read();
    if (found === null) return false;
    const { buffer, byteOffset } = found.digest;
    const hex = Buffer.from(buffer, byteOffset, digestBytes).toString("hex");
    const key = poolKey(prefixes[found.prefix] ?? "", hex);
    const reply = await calls.call({ operation: "getValue", key }, timeoutMs);
    const gone = reply.status === EngineCode.OBJECT_NOT_FOUND;
    const bytes =
      reply.status === EngineCode.VALUE_TOO_LARGE
        ? reply.count
        : reply.status >= 0
          ? reply.value.byteLength
          : null;
    if (!gone && bytes !== found.wantedBytes) return false;
    mismatch.clear();
    this.#options.trace.record("poolOpened", NONE, NONE, 0, NONE);
    log.warn(
      { key },
      gone
        ? "the pool is open to this member again: a value of another size that kept it closed is gone"
        : "the pool is open to this member again: a value that kept it closed has the right size now",
    );
    return true;
  }
}
