import { join } from "node:path";
import type { EngineChannel } from "../../../store/engine.ts";
import { ACTOR_COUNT, ACTOR_NAMES } from "../../messages.ts";
import type { ActorThreadData } from "../../plan.ts";
import type { ActorContext } from "../../step.ts";
import type { ThreadEnds } from "../thread-ends.ts";
import { RECORDING_VERSION } from "./format.ts";
import { RecordingFile } from "./recording-file.ts";
import { StepRecorder } from "./step-recorder.ts";

export interface Recording {
  readonly recorder: StepRecorder;
  readonly file: RecordingFile;
  /** Make and run the actor with this one. */
  readonly context: ActorContext;
}

/** Name of the file in the folder: one for each incarnation. */
export function recordingName(actor: number, epoch: number): string {
  return `${ACTOR_NAMES[actor]}-${epoch}.jsonl`;
}

/** Begins the recording that the thread's data ask for; undefined when they ask for none. */
export function startRecording(
  data: ActorThreadData & { readonly epoch: number },
  ends: ThreadEnds,
  context: ActorContext,
  engine: EngineChannel | null,
): Recording | undefined {
  const { plan, actor, epoch, recordFolder, connector, scheduler } = data;
  if (recordFolder === null) return undefined;
  const file = new RecordingFile(join(recordFolder, recordingName(actor, epoch)), context.log);
  file.header({
    recording: RECORDING_VERSION,
    actor,
    epoch,
    dimensions: plan.tables.dimensions,
    connector,
    scheduler,
    workers: plan.workers,
    rules: plan.rules,
    gone: Array.from({ length: ACTOR_COUNT }, (_, other) => other).filter(ends.gone),
    channel:
      engine === null
        ? null
        : { batchSlots: engine.batchSlots, keysPerBatchMax: engine.keysPerBatchMax },
  });
  const recorder = new StepRecorder(
    { buffers: plan.tables, tables: ends.tables, file },
    context.nowMs(),
  );
  return { recorder, file, context: recorder.record(context) };
}
