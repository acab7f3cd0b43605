import { parentPort, workerData, type MessagePort } from "node:worker_threads";
import { loadNative } from "../../native/load.ts";
import { attachNativeChannel } from "../../store/native-channel.ts";
import { CounterBlock } from "../../trace/counters.ts";
import { NONE } from "../../blocks/layout.ts";
import { serveThreadControl } from "../control/thread-control.ts";
import { ACTOR_LOOKUP } from "../messages.ts";
import { MismatchWords } from "../mismatch-words.ts";
import type { ActorThreadData } from "../plan.ts";
import type { FromThread, ToThread } from "../supervision/thread-messages.ts";
import { createActor } from "./create-actor.ts";
import { openLookupRpc } from "./lookup-rpc/lookup-rpc-thread.ts";
import { openThreadContext } from "./thread-context.ts";
import { openThreadEvents } from "./thread-events.ts";
import { openThreadLog } from "./thread-log.ts";
import { openThreadEnds } from "./thread-ends.ts";
import { startRecording } from "./recording/start-recording.ts";
import { ThreadHost } from "./thread-host.ts";

/** What the supervisor adds. */
type ThreadData = ActorThreadData & { readonly epoch: number; readonly control: MessagePort };

/**
 * Entry of an actor's worker thread (scheduler, lookup, loader, saver). It is ready when its wake handle is open: from then
 * on messages and completions start steps.
 */
function main(data: ThreadData): void {
  const { plan, actor, epoch } = data;
  const native = loadNative();
  const ends = openThreadEnds(plan, native, actor);
  const channel = plan.channels[actor];
  const engine =
    channel === undefined
      ? null
      : attachNativeChannel({
          words: new Int32Array(channel.words),
          shape: channel.shape,
          binding: native,
          channelId: channel.channelId,
          epoch,
        });
  const counters = new CounterBlock(plan.counters, actor);
  if (epoch > 1) counters.resetGauges();
  const logger = openThreadLog(actor, plan.logLevel);
  const notify = (message: FromThread): void => parentPort?.postMessage(message);
  // The host is made last; what arrives on the socket comes later still.
  const wake = (): void => host.wake();
  const rpc =
    actor === ACTOR_LOOKUP && plan.lookupRpc !== null
      ? openLookupRpc(plan.lookupRpc, {
          ...data,
          ends,
          native,
          logger,
          counters,
          wake,
          askRuntime: notify,
        })
      : null;
  const live = openThreadContext(data, ends, native, { engine, logger, remote: rpc?.remote });
  const { tick } = live;
  const recording = startRecording(data, ends, live.context, engine);
  const context = recording?.context ?? live.context;
  const wakeId = plan.wakeIds[actor]!;
  const instance = createActor({
    data,
    ends: {
      ...ends,
      flushWakes: () => ends.outboxes.flush(),
      events: openThreadEvents(plan, actor, ends.tables),
      mismatch: new MismatchWords(plan.control),
    },
    context,
    counters,
  });
  recording?.recorder.end(Infinity);
  const host = new ThreadHost({
    actor: instance,
    tables: ends.tables,
    context,
    mailbox: ends.mailboxes[actor]!,
    outboxes: ends.outboxes,
    tick,
    recorder: recording?.recorder,
    onStopped: () => {
      // The thread lives on until the file is written.
      void recording?.file.end();
      rpc?.close();
      native.wakeClose(wakeId);
      notify({ lifeCycle: "stopped", inFlight: engine?.inFlight() ?? 0 });
    },
  });
  parentPort?.on("message", (message: ToThread) => {
    if (message.order === "fail") host.failNextStep();
    else rpc?.resetAnswered(message);
  });
  // Orders do not keep a thread alive that has stopped.
  parentPort?.unref();
  serveThreadControl({
    port: data.control,
    actor: instance,
    logger,
    wake: host.wake,
    nowMs: ends.nowMs,
  });
  native.wakeOpen(wakeId, host.wake, true);
  context.trace.record("actorStarted", NONE, NONE, actor, epoch);
  // Who has started this process may ask at once. A socket that does not open ends the thread with the reason.
  if (rpc === null) notify({ lifeCycle: "ready" });
  else void rpc.opened.then(() => notify({ lifeCycle: "ready" }));
  // What came before the handle was open is in the mailbox: the first step takes it.
  host.wake();
}

main(workerData as ThreadData);
