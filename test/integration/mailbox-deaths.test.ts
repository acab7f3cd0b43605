/**
 * Goal: threads that are terminated in the middle of a push never stop a mailbox, and no message of a living thread is lost,
 * torn or doubled. Method: worker threads push numbered messages without pause into one mailbox. Every other one ends while it
 * fills a record, after a drawn number of messages; the others are terminated from outside, wherever they are then. The property
 * test goes through all places of a push.
 */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { expect, test } from "vitest";
import { Mailbox, mailboxWords } from "../../src/actors/mailbox/mailbox.ts";
import type { Message } from "../../src/actors/messages.ts";
import { workerEntry } from "../../src/worker-entry.ts";

const CAPACITY = 256;
const PRODUCERS = 3;
const DEATHS = 42;
/** What each producer pushes when nobody is terminated any more. */
const LAST_NUMBERS = 5000;
/** No correct mailbox is silent that long with live producers behind it. */
const SILENCE_MS = 20_000;

const PRODUCER = `
import { workerData } from "node:worker_threads";
const { Mailbox } = await import(workerData.module);
const mailbox = new Mailbox(workerData.words, workerData.producer);
const { producer, life, count, lastNumber } = workerData;
const never = new Int32Array(new SharedArrayBuffer(4));
for (let number = 0; number < count; number++) {
  const message = {
    kind: "lookup", slot: producer, generation: life, attempt: number,
    get tokens() {
      if (number === lastNumber) process.exit(1);
      return life ^ number;
    },
  };
  while (!mailbox.push(message)) Atomics.wait(never, 0, 0, 1);
}
`;

interface Producer {
  readonly worker: Worker;
  readonly exited: Promise<unknown>;
  readonly life: number;
  next: number;
}

class Producers {
  readonly mailbox: Mailbox;
  readonly living: Producer[] = [];
  readonly #words = new Int32Array(new SharedArrayBuffer(mailboxWords(CAPACITY) * 4));
  #lives = 0;

  constructor() {
    Mailbox.initialise(this.#words);
    this.mailbox = new Mailbox(this.#words);
  }

  /** The thread pushes `count` messages, or ends itself while it fills the record of number `lastNumber`. */
  start(producer: number, count: number, lastNumber: number): void {
    const life = ++this.#lives;
    const module = workerEntry("actors/mailbox/mailbox.js").href;
    const worker = new Worker(new URL(`data:text/javascript,${encodeURIComponent(PRODUCER)}`), {
      workerData: { words: this.#words, producer, life, count, lastNumber, module },
    });
    // As the supervisor does it: once the thread has ended, before its successor starts.
    const exited = once(worker, "exit").then(() => this.mailbox.producerDied(producer));
    this.living[producer] = { worker, exited, life, next: 0 };
  }

  /** Takes messages until `done`; every message is whole and the next one of its producer's life, or one of an earlier life. */
  async take(done: () => boolean): Promise<void> {
    for (let lastMs = performance.now(); !done();) {
      const message = this.mailbox.pop();
      if (message !== null) {
        this.#check(message);
        lastMs = performance.now();
      } else if (performance.now() - lastMs > SILENCE_MS) {
        throw new Error("the mailbox stands still");
      } else await new Promise((resolve) => setTimeout(resolve, 1));
    }
  }

  #check(message: Message): void {
    if (message.kind !== "lookup") throw new Error(`never sent: ${message.kind}`);
    const { slot, generation, attempt, tokens } = message;
    const producer = this.living[slot];
    const torn = tokens !== (generation ^ attempt) || producer === undefined;
    if (torn || generation > producer.life) throw new Error(`torn: ${JSON.stringify(message)}`);
    if (generation === producer.life && attempt !== producer.next++)
      throw new Error(`lost or doubled: ${attempt} instead of ${producer.next - 1}`);
  }
}

test("producers that end in the middle of a push do not stop a mailbox", async () => {
  const producers = new Producers();
  let seed = 7;
  const draw = (): number => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
    return 1 + ((seed >>> 8) % 4000);
  };
  const begin = (producer: number, death: number): void => {
    const ownDeath = death % 2 === 0 ? draw() : -1;
    if (death < DEATHS) producers.start(producer, 2 ** 31, ownDeath);
    else producers.start(producer, LAST_NUMBERS, -1);
  };
  for (let producer = 0; producer < PRODUCERS; producer++) begin(producer, producer);
  for (let death = 0; death < DEATHS; death++) {
    const victim = producers.living[death % PRODUCERS]!;
    let ended = false;
    void victim.exited.then(() => (ended = true));
    if (death % 2 === 1) {
      const wanted = draw();
      await producers.take(() => victim.next > wanted);
      void victim.worker.terminate();
    }
    await producers.take(() => ended);
    begin(death % PRODUCERS, death + PRODUCERS);
  }
  await producers.take(() => producers.living.every(({ next }) => next === LAST_NUMBERS));
  await Promise.all(producers.living.map(({ exited }) => exited));
  expect(producers.mailbox.arm()).toBe(true);
  // One record each was in the hands of those who ended themselves; the others had one at most.
  expect(producers.mailbox.holes()).toBeGreaterThanOrEqual(DEATHS / 2);
  expect(producers.mailbox.holes()).toBeLessThanOrEqual(DEATHS);
});
