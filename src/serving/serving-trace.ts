import { emptyRegularFile } from "../config/file-kinds.ts";
import { MooncakeKvError } from "../errors.ts";
import type { RequestIdOf } from "../trace/chrome-events.ts";
import {
  type ChromeTraceSummary,
  type ChromeTraceWriter,
  createChromeTraceFile,
} from "../trace/chrome.ts";
import { TraceCollector } from "../trace/collector.ts";
import { CounterBlock } from "../trace/counters.ts";
import { ACTOR_FRONT_END } from "../actors/messages.ts";
import type { RuntimePlan } from "../actors/plan.ts";
import type { Log } from "../actors/step.ts";

const DRAIN_PERIOD_MS = 20;
const WINDOW_RECORDS = 65_536;

/** Throws INVALID_VALUE for a path that cannot be written; else the file exists and is empty. */
export function checkTraceFile(path: string): void {
  try {
    emptyRegularFile(path);
  } catch (cause) {
    throw unwritable(path, "cannot be written", cause);
  }
}

/**
 * Drains the trace rings of a runtime and writes them to a Chrome trace file, from the start to `close`. A file that cannot be
 * written further is told at once, in the log; the server goes on without it.
 */
export class ServingTrace {
  readonly collector: TraceCollector;
  readonly #path: string;
  readonly #log: Log;
  readonly #file: ChromeTraceWriter;
  readonly #timer: NodeJS.Timeout;

  constructor(plan: RuntimePlan, path: string, requestId: RequestIdOf, log: Log) {
    this.collector = new TraceCollector({
      rings: (plan.traceRings ?? []).map((ring, lane) => ({ lane, ring })),
      windowRecords: WINDOW_RECORDS,
      counters: new CounterBlock(plan.counters, ACTOR_FRONT_END),
      onSubscriberError: (error) =>
        log.error({ error: String(error) }, "a trace subscriber failed and was taken off"),
    });
    this.#path = path;
    this.#log = log;
    let unsubscribe = (): void => undefined;
    this.#file = createChromeTraceFile(path, {
      processName: "mooncake-kv",
      requestId,
      onFailure: (error) => {
        unsubscribe();
        const text = "the trace ends here: its file cannot be written further";
        log.error({ path, error: error.message }, text);
      },
    });
    unsubscribe = this.collector.subscribe(this.#file);
    this.#timer = setInterval(() => this.collector.drain(), DRAIN_PERIOD_MS);
    this.#timer.unref();
  }

  /** Takes what is left and closes the file. Throws INVALID_VALUE when it could not be written: it is no whole trace then. */
  async close(): Promise<ChromeTraceSummary> {
    clearInterval(this.#timer);
    this.collector.drain();
    let summary: ChromeTraceSummary;
    try {
      summary = await this.#file.close();
    } catch (cause) {
      throw unwritable(this.#path, "could not be written to its end", cause);
    }
    const { dropped } = summary;
    if (dropped > 0)
      this.#log.warn({ path: this.#path, dropped }, "the trace lacks events: the disk is too slow");
    return summary;
  }
}

function unwritable(path: string, problem: string, cause: unknown): MooncakeKvError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new MooncakeKvError({
    code: "INVALID_VALUE",
    field: "trace",
    value: path,
    problem: `this file ${problem}: ${reason}`,
    remedy: "Give a file in a folder that exists, that this user may write, on a disk with room.",
    cause,
  });
}
