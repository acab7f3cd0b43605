import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { Outboxes } from "../../src/actors/hosts/outboxes.ts";
import { Mailbox, mailboxWords } from "../../src/actors/mailbox/mailbox.ts";
import { ACTOR_COUNT, ACTOR_LOOKUP } from "../../src/actors/messages.ts";
import type { NativeBinding } from "../../src/native/binding.ts";
import { median, percentile, type Report } from "./report.ts";
import { AWAKE, READY, type SleeperData, TAKEN } from "./sleeping-receiver.ts";

const CAPACITY = 64;
const WAKES = 3000;
const WARM_UP_WAKES = 300;

/**
 * What a step pays for waking one sleeping receiver: `Outboxes.flush` of this thread while the event loop of another thread
 * sleeps, and how long it takes until that thread has taken the message.
 */
export async function measureWake(native: NativeBinding, report: Report): Promise<void> {
  const mailboxes = Array.from({ length: ACTOR_COUNT }, () => {
    const words = new Int32Array(new SharedArrayBuffer(mailboxWords(CAPACITY) * 4));
    Mailbox.initialise(words);
    return words;
  });
  const wakeId = native.wakeReserve();
  const control = new Int32Array(new SharedArrayBuffer(64));
  const receiver = new Worker(new URL("./sleeping-receiver.js", import.meta.url), {
    workerData: { words: mailboxes[ACTOR_LOOKUP]!, control, wakeId } satisfies SleeperData,
  });
  const ended = once(receiver, "exit");
  let woken = 0;
  const outboxes = new Outboxes(
    mailboxes.map((words) => new Mailbox(words)),
    () => {
      woken++;
      native.wake(wakeId);
    },
  );
  await once(receiver, "message");
  const flushes: number[] = [];
  const arrivals: number[] = [];
  for (let count = 0; count < WARM_UP_WAKES + WAKES; count++) {
    waitFor(control, READY, count);
    // The receiver has armed its mailbox; the rest of its way into the sleep is not visible from here.
    Atomics.wait(control, AWAKE, 0, 0.2);
    outboxes.send(ACTOR_LOOKUP, { kind: "hashRequest", slot: count, generation: 1 });
    const start = native.monotonicNanoseconds();
    const startCpu = native.threadCpuNanoseconds();
    const before = woken;
    outboxes.flush();
    const flushed = native.threadCpuNanoseconds() - startCpu;
    waitFor(control, TAKEN, count + 1);
    // A receiver that was found awake cost no wake.
    if (count < WARM_UP_WAKES || woken === before) continue;
    flushes.push(flushed);
    arrivals.push(native.monotonicNanoseconds() - start);
  }
  outboxes.send(ACTOR_LOOKUP, { kind: "stop", deadlineMs: 0 });
  outboxes.flush();
  await ended;
  report.figure("wake (Outboxes.flush, one sleeping receiver), p50", median(flushes) / 1e3, "us");
  report.figure("wake, p99", percentile(flushes, 0.99) / 1e3, "us");
  report.figure(
    "from flush until the other thread has the message, p50",
    median(arrivals) / 1e3,
    "us",
  );
  report.figure("  p99", percentile(arrivals, 0.99) / 1e3, "us");
}

/** Blocks until the receiver has counted a word up to `wanted`. */
function waitFor(control: Int32Array, word: number, wanted: number): void {
  for (;;) {
    // Pairs with the receiver's Atomics.store and notify.
    const seen = Atomics.load(control, word);
    if (seen >= wanted) return;
    if (Atomics.wait(control, word, seen, 10_000) === "timed-out")
      throw new Error("the sleeping receiver does not answer");
  }
}
