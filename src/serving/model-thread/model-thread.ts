import { parentPort, workerData, type MessagePort } from "node:worker_threads";
import { serveControl } from "../../actors/control/actor-control.ts";
import { setLogLevel } from "../../actors/control/thread-control.ts";
import { openThreadEnds } from "../../actors/hosts/thread-ends.ts";
import { openThreadLog } from "../../actors/hosts/thread-log.ts";
import { openThreadTrace } from "../../actors/hosts/thread-trace.ts";
import { ACTOR_MODEL, ACTOR_SCHEDULER, type RunStep } from "../../actors/messages.ts";
import { CONTROL_MODEL_EXIT_WORD, type RuntimePlan } from "../../actors/plan.ts";
import type { LifeCycle } from "../../actors/supervision/thread-messages.ts";
import { NONE, STEP_SEQUENCES } from "../../blocks/layout.ts";
import { loadNative } from "../../native/load.ts";
import type { PreparedModel } from "../model/prepared-model.ts";
import { PagedModelRunner } from "../model/paged-model-runner.ts";
import { StepRunner } from "./step-runner.ts";

/** `epoch` and `control` are the supervisor's. */
export interface ModelThreadData {
  readonly plan: RuntimePlan;
  readonly epoch: number;
  readonly control: MessagePort;
  readonly model: PreparedModel;
  readonly regionId: number;
  readonly blockCount: number;
  readonly threads: number;
  readonly sequencesMax: number;
  readonly tokensPerStepMax: number;
}

/**
 * The model actor's thread. Unlike the other actors it has no step function: onnxruntime blocks the thread for a whole
 * scheduling step, so it takes one `runStep` at a time, computes, and answers `stepDone`.
 */
async function main(data: ModelThreadData): Promise<void> {
  const native = loadNative();
  const ends = openThreadEnds(data.plan, native, ACTOR_MODEL);
  const trace = openThreadTrace(data.plan, ACTOR_MODEL, data.epoch, native);
  const mailbox = ends.mailboxes[ACTOR_MODEL]!;
  const kvPool = new Float32Array(native.regionView(data.regionId));
  const runner = await PagedModelRunner.load(data.model, {
    kvPool: kvPool.subarray(0, (data.blockCount * data.model.blockBytes) / 4),
    blockCount: data.blockCount,
    threads: data.threads,
  });
  const steps = new StepRunner({
    runner,
    tables: ends.tables,
    sequencesMax: data.sequencesMax,
    tokensPerStepMax: data.tokensPerStepMax,
    contextTokensMax: data.model.contextTokensMax,
    vocabularySize: data.model.config.vocabularySize,
  });
  const notify = (message: LifeCycle): void => parentPort?.postMessage(message);

  const logger = openThreadLog(ACTOR_MODEL, data.plan.logLevel);
  const counters = { steps: 0, stepsFailed: 0 };
  const computing = { step: 0, sinceMs: 0 };

  const runStep = async ({ step, number }: RunStep): Promise<void> => {
    const began = ends.nowMs();
    computing.step = number;
    computing.sinceMs = began;
    trace.record(
      "modelBegin",
      NONE,
      NONE,
      number,
      ends.tables.steps[ends.tables.step(step) + STEP_SEQUENCES]!,
    );
    let status = 0;
    let tokens = 0;
    try {
      tokens = await steps.run(step);
    } catch (error) {
      status = -1;
      counters.stepsFailed++;
      logger.error({ step: number, error: String(error) }, "step failed");
    }
    counters.steps++;
    computing.step = 0;
    trace.record("modelEnd", NONE, NONE, number, tokens);
    const microseconds = Math.round((ends.nowMs() - began) * 1000);
    ends.outboxes.send(ACTOR_SCHEDULER, { kind: "stepDone", step, number, status, microseconds });
    ends.outboxes.flush();
  };

  const control = new Int32Array(data.plan.control);
  // Pairs with the supervisor's store. onnxruntime must not be ended from outside in the middle of a run.
  const exitIfAsked = (): void => {
    if (Atomics.load(control, CONTROL_MODEL_EXIT_WORD) >= data.epoch) process.exit(1);
  };
  let busy = false;
  const drain = async (): Promise<void> => {
    if (busy) return;
    busy = true;
    for (;;) {
      exitIfAsked();
      mailbox.disarm();
      const message = mailbox.pop();
      if (message === null) {
        if (mailbox.arm()) break;
        await new Promise((resolve) => setImmediate(resolve));
      } else if (message.kind === "runStep") await runStep(message);
      else if (message.kind === "stop") {
        native.wakeClose(data.plan.wakeIds[ACTOR_MODEL]!);
        await runner.close();
        notify({ lifeCycle: "stopped", inFlight: 0 });
        return;
      }
    }
    busy = false;
  };
  const fail = (error: unknown): void => {
    setImmediate(() => {
      throw error;
    });
  };
  const wake = (): void => void drain().catch(fail);
  serveControl(data.control, {
    setLogLevel: (level) => setLogLevel(logger, level),
    counters: () => ({ ...counters }),
    step: () => void setImmediate(wake),
    inspect: () => ({
      counters: { ...counters },
      inHand: {
        step: computing.step,
        computingMs: computing.step === 0 ? 0 : Math.round(ends.nowMs() - computing.sinceMs),
      },
    }),
  });
  native.wakeOpen(data.plan.wakeIds[ACTOR_MODEL]!, wake, true);
  notify({ lifeCycle: "ready" });
  await drain();
}

void main(workerData as ModelThreadData).catch((error: unknown) => {
  parentPort?.postMessage({ lifeCycle: "failed", message: String(error) } satisfies LifeCycle);
  process.exitCode = 1;
  setImmediate(() => {
    throw error;
  });
});
