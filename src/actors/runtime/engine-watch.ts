import { MooncakeKvError } from "../../errors.ts";
import type { EngineStatus, NativeBinding } from "../../native/binding.ts";
import { NONE } from "../../blocks/layout.ts";
import { followWheelLog } from "../../store/mooncake/wheel-log.ts";
import type { TraceWriter } from "../../trace/events.ts";
import type { Log } from "../step.ts";

export interface EngineWatchOptions {
  readonly native: NativeBinding;
  readonly engineId: number;
  /** The handle that `engineOpen` was given. */
  readonly wakeId: number;
  /** Whether the engine has a log of its own, which goes on in ours. */
  readonly hasLog?: boolean;
  readonly trace: TraceWriter;
  readonly log: Log;
}

/**
 * Sees the engine come, go and come again: logs and traces each change, and tells who listens. Lives on the runtime's own thread;
 * does not keep its event loop alive.
 */
export class EngineWatch {
  readonly #options: EngineWatchOptions;
  readonly #listeners = new Set<(status: EngineStatus) => void>();
  #last: EngineStatus;
  /** As told last. */
  #told: Pick<EngineStatus, "state" | "reopenings"> = { state: "opening", reopenings: 0 };
  readonly #endLog: () => void;
  #closed = false;

  constructor(options: EngineWatchOptions) {
    this.#options = options;
    this.#last = options.native.engineState(options.engineId);
    options.native.wakeOpen(options.wakeId, () => this.#look(), false);
    this.#endLog =
      options.hasLog === true ? followWheelLog(options.native, options.log) : () => undefined;
    this.#look();
  }

  /** After `close` what was seen last, as closed. */
  status(): EngineStatus {
    if (!this.#closed) this.#last = this.#options.native.engineState(this.#options.engineId);
    return this.#last;
  }

  /** Calls `listener` after each change of the state; several changes at once are one call. Returns what ends that. */
  onChange(listener: (status: EngineStatus) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Resolves when the engine is open, or after `timeoutMs` if it is on its way still: requests are computed meanwhile. Rejects when
   * it will never open as it is configured.
   */
  async settle(timeoutMs: number): Promise<void> {
    const onItsWay = ({ state }: EngineStatus): boolean => state === "opening" || state === "down";
    let status = this.status();
    if (onItsWay(status)) status = await this.#next((now) => !onItsWay(now), timeoutMs);
    if (status.state === "failed") throw failed(status);
    if (!onItsWay(status)) return;
    this.#options.log.warn(
      { state: status.state, timeoutMs, error: status.error?.problem ?? null },
      "the storage engine is not open yet: requests are computed until it is",
    );
  }

  /** Before `engineClose`. */
  close(): void {
    if (this.#closed) return;
    this.#last = { ...this.status(), state: "closed" };
    this.#closed = true;
    for (const listener of this.#listeners) listener(this.#last);
    this.#listeners.clear();
    this.#endLog();
    this.#options.native.wakeClose(this.#options.wakeId);
  }

  #next(wanted: (status: EngineStatus) => boolean, timeoutMs: number): Promise<EngineStatus> {
    return new Promise((resolve) => {
      const end = (status: EngineStatus): void => {
        clearTimeout(timer);
        forget();
        resolve(status);
      };
      const timer = setTimeout(() => end(this.status()), timeoutMs);
      const forget = this.onChange((status) => {
        if (wanted(status)) end(status);
      });
    });
  }

  #look(): void {
    if (this.#closed) return;
    const { log, trace } = this.#options;
    const status = this.status();
    const { state, reopenings, error } = status;
    // Lost and open again between two looks is a change too.
    if (state === this.#told.state && reopenings === this.#told.reopenings) return;
    const first = this.#told.state === "opening" && reopenings === 0;
    this.#told = status;
    if (state === "open") {
      trace.record("engineOpened", NONE, NONE, reopenings, NONE);
      if (!first) log.info({ reopenings }, "the storage engine is open again");
    } else if (state === "down" || state === "failed") {
      trace.record("engineLost", NONE, NONE, reopenings, state === "failed" ? 1 : 0);
      log[state === "failed" ? "error" : "warn"](
        { state, code: error?.code ?? null, error: error?.problem ?? null },
        state === "failed"
          ? "the storage engine has failed for good: requests are computed"
          : "the storage engine is down: requests are computed until it is open again",
      );
    }
    for (const listener of this.#listeners) listener(status);
  }
}

function failed({ error }: EngineStatus): MooncakeKvError {
  return new MooncakeKvError({
    code: error?.code === "UNSUPPORTED" ? "UNSUPPORTED" : "INVALID_VALUE",
    field: error?.field ?? "engine",
    problem: `the storage engine does not open: ${error?.problem ?? "it gave no reason"}`,
    remedy: error?.remedy ?? "See the log.",
  });
}
