// A second thread of the process that tries to attach to a runtime which another thread drives.
import { parentPort, threadId, workerData } from "node:worker_threads";
import { openThreadEnds } from "../../../dist/actors/hosts/thread-ends.js";
import { CONTROL_OWNER_WORD } from "../../../dist/actors/plan.js";
import { ACTOR_SCHEDULER } from "../../../dist/actors/messages.js";
import { RequestSlots } from "../../../dist/blocks/request-slots.js";
import { Connector } from "../../../dist/connector/connector.js";
import { loadNative } from "../../../dist/native/load.js";
import { NO_TRACE } from "../../../dist/trace/events.js";

const { plan, settings } = workerData;
const ends = openThreadEnds(plan, loadNative());
const quiet = () => undefined;
try {
  new Connector({
    tables: ends.tables,
    settings,
    log: { debug: quiet, info: quiet, warn: quiet, error: quiet },
    trace: NO_TRACE,
    nowMs: ends.nowMs,
    send: (actor, message) => ends.outboxes.send(actor, message),
    flushWakes: () => ends.outboxes.flush(),
    pool: { pin: quiet, unpin: quiet },
    ranks: plan.workers.length,
    slots: new RequestSlots(ends.tables),
    mailbox: ends.mailboxes[ACTOR_SCHEDULER],
    owner: new Int32Array(plan.control).subarray(CONTROL_OWNER_WORD, CONTROL_OWNER_WORD + 1),
    threadId,
    deaths: ends.deaths,
    hashBlocks: () => 0,
  });
  parentPort.postMessage({ code: "attached" });
} catch (error) {
  parentPort.postMessage({ code: error.code, value: error.value, threadId });
}
