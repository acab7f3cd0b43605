import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { isDeepStrictEqual } from "node:util";
import { createTableBuffers, Tables, type TableBuffers } from "../../../blocks/tables.ts";
import { MooncakeKvError } from "../../../errors.ts";
import { CounterBlock, createCounterBuffer } from "../../../trace/counters.ts";
import { ACTOR_COUNT } from "../../messages.ts";
import type { Actor } from "../../step.ts";
import { createActor } from "../create-actor.ts";
import {
  RECORDING_VERSION,
  type RecordedStep,
  type RecordingEnd,
  type RecordingHeader,
} from "../recording/format.ts";
import { applyChanges } from "../recording/table-shadow.ts";
import { ReplayContext, ReplayDivergence } from "./replay-context.ts";

export interface Divergence {
  readonly step: number;
  readonly problem: string;
}

export interface ReplayReport {
  readonly actor: number;
  readonly epoch: number;
  /** Steps that were run again, the making of the actor (step 0) among them, and what they gave away. */
  readonly steps: number;
  readonly outputs: number;
  /** The recording goes on to the actor's stop: nothing is missing at its end. */
  readonly complete: boolean;
  /** Where the actor first did something else than it had done; null: it did exactly the same. */
  readonly divergence: Divergence | null;
}

/**
 * Runs one incarnation of an actor again from its recording, in this thread, on fresh tables and without an engine, and compares
 * every message, batch and deadline. Throws INVALID_VALUE for a file that is no recording of this version.
 */
export async function replayRecording(path: string): Promise<ReplayReport> {
  const lines = createInterface({ input: createReadStream(path), crlfDelay: Infinity });
  let replay: Replay | undefined;
  try {
    for await (const line of lines) {
      const value = parse(line);
      if (replay === undefined) replay = new Replay(checkedHeader(path, value));
      else if (value === undefined) break; // The thread died in the middle of a line.
      else if ("end" in (value as object)) replay.ended(value as RecordingEnd);
      else if (!replay.step(value as RecordedStep)) break;
    }
  } finally {
    lines.close();
  }
  if (replay === undefined) throw noRecording(path, "is empty");
  return replay.report();
}

/** A line's value; undefined for half a line. */
function parse(line: string): unknown {
  try {
    return JSON.parse(line) as unknown;
  } catch {
    return undefined;
  }
}

function checkedHeader(path: string, value: unknown): RecordingHeader {
  const version = (value as RecordingHeader | null | undefined)?.recording;
  if (version === RECORDING_VERSION) return value as RecordingHeader;
  throw noRecording(
    path,
    `does not begin with the header of a version ${RECORDING_VERSION} recording`,
  );
}

function noRecording(path: string, problem: string): MooncakeKvError {
  return new MooncakeKvError({
    code: "INVALID_VALUE",
    field: "recording",
    value: path,
    problem,
    remedy: "Give a file that a runtime with a record folder has written, of this version.",
  });
}

class Replay {
  readonly #header: RecordingHeader;
  readonly #buffers: TableBuffers;
  readonly #tables: Tables;
  readonly #context: ReplayContext;
  #actor: Actor | undefined;
  #steps = 0;
  #outputs = 0;
  #complete = false;
  #divergence: Divergence | null = null;

  constructor(header: RecordingHeader) {
    this.#header = header;
    this.#buffers = createTableBuffers(header.dimensions);
    this.#tables = new Tables(this.#buffers);
    this.#context = new ReplayContext(header, this.#buffers, this.#tables);
  }

  /** False: it diverged, the rest makes no sense. */
  step(recorded: RecordedStep): boolean {
    applyChanges(this.#buffers, recorded.changes);
    this.#context.begin(recorded);
    try {
      const deadlineMs = this.#run(recorded);
      this.#context.end();
      if (!isDeepStrictEqual(deadlineMs, recorded.deadlineMs ?? Infinity))
        throw new ReplayDivergence(
          `wants to be called at ${deadlineMs}, recorded: ${recorded.deadlineMs ?? "never"}`,
        );
    } catch (error) {
      // A throw of the actor is one too: the recorded one had gone on.
      const problem = error instanceof Error ? error.message : String(error);
      this.#divergence = { step: recorded.step, problem };
      return false;
    }
    this.#steps++;
    this.#outputs += recorded.outputs.length;
    return true;
  }

  ended({ stepsLost }: RecordingEnd): void {
    this.#complete = stepsLost === 0;
  }

  report(): ReplayReport {
    return {
      actor: this.#header.actor,
      epoch: this.#header.epoch,
      steps: this.#steps,
      outputs: this.#outputs,
      complete: this.#complete && this.#divergence === null,
      divergence: this.#divergence,
    };
  }

  #run(recorded: RecordedStep): number {
    if (this.#actor !== undefined)
      return this.#actor.step(this.#context, this.#tables, this.#context.context);
    if (recorded.step !== 0) throw new ReplayDivergence("the recording has no step 0");
    this.#actor = this.#create();
    return Infinity;
  }

  #create(): Actor {
    const { actor, connector, scheduler, workers, rules, gone } = this.#header;
    return createActor({
      data: { actor, connector, scheduler, plan: { workers, rules } },
      ends: {
        tables: this.#tables,
        gone: (other) => gone.includes(other),
        flushWakes: () => undefined,
      },
      context: this.#context.context,
      counters: new CounterBlock(createCounterBuffer(ACTOR_COUNT), actor),
    });
  }
}
