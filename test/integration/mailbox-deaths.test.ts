/**
 * Goal: threads that are terminated in the middle of a push never stop a mailbox, and no message of a living thread is lost,
 * torn or doubled. Method: worker threads push numbered messages without pause into one small mailbox; after a drawn number of
 * messages one of them is terminated and replaced. Where in a push it dies is left to the machine; the property test goes
 * through all places.
 */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { expect, test } from "vitest";
import { Mailbox, mailboxWords } from "../../src/actors/mailbox/mailbox.ts";
import { workerEntry } from "../../src/worker-entry.ts";

const CAPACITY = 64;
const PRODUCERS = 3;
const DEATHS = 60;
/** What each producer pushes when nobody is terminated any more. */
const LAST_NUMBERS = 20_000;
/** No correct mailbox is silent that long with live producers behind it. */
const SILENCE_MS = 20_000;

const PRODUCER = `
import { workerData, parentPort } from "node:worker_threads";
const { Mailbox } = await import(workerData.module);
const mailbox = new Mailbox(workerData.words, workerData.producer);
const { producer, life, count } = workerData;
for (let number = 0; number < count; number++) {
  const message = { kind: "lookup", slot: producer, generation: life, attempt: number, tokens: life ^ number };
  while (!mailbox.push(message));
}
parentPort.postMessage("done");
`;

interface Producer {
  readonly worker: Worker;
  readonly life: number;
  next: number;
}

class Producers {
  readonly words = new Int32Array(new SharedArrayBuffer(mailboxWords(CAPACITY) * 4));
  readonly mailbox: Mailbox;
  readonly living: (Producer | undefined)[] = [];
  #lives = 0;

  constructor() {
    Mailbox.initialise(this.words);
    this.mailbox = new Mailbox(this.words);
  }

  start(producer: number, count: number): Worker {
    const life = ++this.#lives;
    const module = workerEntry("actors/mailbox/mailbox.js").href;
    const worker = new Worker(
      new URL(`data:text/javascript,${encodeURIComponent(PRODUCER)}`) as never,
      { workerData: { words: this.words, producer, life, count, module } },
    );
    this.living[producer] = { worker, life, next: 0 };
    return worker;
  }

  async kill(producer: number): Promise<void> {
    await this.living[producer]?.worker.terminate();
    this.mailbox.producerDied(producer);
  }

  /** Takes messages until `done`; every message is whole and the next one of its producer's life, or one of an earlier life. */
  async take(done: (taken: number) => boolean): Promise<void> {
    let taken = 0;
    for (let lastMs = performance.now(); !done(taken);) {
      const message = this.mailbox.pop();
      if (message === null) {
        if (performance.now() - lastMs > SILENCE_MS) throw new Error("the mailbox stands still");
        await new Promise(setImmediate);
        continue;
      }
      if (message.kind !== "lookup") throw new Error(`never sent: ${message.kind}`);
      expect(message.tokens).toBe(message.generation ^ message.attempt);
      const producer = this.living[message.slot];
      if (producer === undefined) throw new Error(`no such producer: ${message.slot}`);
      expect(message.generation).toBeLessThanOrEqual(producer.life);
      if (message.generation === producer.life) expect(message.attempt).toBe(producer.next++);
      lastMs = performance.now();
      taken++;
    }
  }
}

test("terminated producers do not stop a mailbox", { timeout: 120_000 }, async () => {
  const producers = new Producers();
  for (let producer = 0; producer < PRODUCERS; producer++) producers.start(producer, 2 ** 31);
  let seed = 7;
  for (let death = 0; death < DEATHS; death++) {
    const victim = death % PRODUCERS;
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
    const wanted = 1 + ((seed >>> 8) % 4000);
    await producers.take((taken) => taken >= wanted && producers.living[victim]!.next > 0);
    await producers.kill(victim);
    const last = death >= DEATHS - PRODUCERS;
    producers.start(victim, last ? LAST_NUMBERS : 2 ** 31);
  }
  await producers.take(() => producers.living.every((producer) => producer!.next === LAST_NUMBERS));
  expect(producers.mailbox.arm()).toBe(true);
  if (process.env["SHOW"]) console.log("holes", producers.mailbox.holes());
  // At most one record each was in the hands of those who died.
  expect(producers.mailbox.holes()).toBeLessThanOrEqual(DEATHS);
  await Promise.all(
    producers.living.map(async (producer) => {
      if (producer!.worker.threadId !== -1) await once(producer!.worker, "exit");
    }),
  );
});
