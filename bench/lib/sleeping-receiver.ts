/** A thread that sleeps in its event loop, as an actor's does, until its mailbox gets a message. */
import { isMainThread, parentPort, workerData } from "node:worker_threads";
import { Mailbox } from "../../src/actors/mailbox/mailbox.ts";
import { loadNative } from "../../src/native/load.ts";

export interface SleeperData {
  readonly words: Int32Array;
  readonly control: Int32Array;
  readonly wakeId: number;
}

/** Words of `control`, each published with a notify: how often the receiver went to sleep, and messages taken. */
export const READY = 0;
export const TAKEN = 1;
/** Never changes: the sender's short waits lie on it. */
export const AWAKE = 2;

if (!isMainThread) run(workerData as SleeperData);

function run({ words, control, wakeId }: SleeperData): void {
  const native = loadNative();
  const mailbox = new Mailbox(words);
  const publish = (word: number): void => {
    // Pairs with the sender's Atomics.wait.
    Atomics.add(control, word, 1);
    Atomics.notify(control, word);
  };
  native.wakeOpen(
    wakeId,
    () => {
      mailbox.disarm();
      // `arm` refuses while a message has come that was not taken.
      do {
        for (let message = mailbox.pop(); message !== null; message = mailbox.pop()) {
          if (message.kind === "stop") return native.wakeClose(wakeId);
          publish(TAKEN);
        }
      } while (!mailbox.arm());
      publish(READY);
    },
    true,
  );
  mailbox.arm();
  parentPort?.postMessage("asleep");
}
