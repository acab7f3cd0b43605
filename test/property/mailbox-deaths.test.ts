/**
 * Goal: no death and no delay of a thread, at whatever point of a push or pop, stops a mailbox, loses or tears a message of a
 * living producer, or delivers one twice. Method: producers and the consumer run in one thread; at a drawn Atomics operation of
 * one of them the others get their turn (and may themselves be interrupted there), then the interrupted one goes on or dies.
 */
import fc from "fast-check";
import { afterEach, expect, test, vi } from "vitest";
import { Mailbox, mailboxWords } from "../../src/actors/mailbox/mailbox.ts";

const CAPACITY = 4;
const PRODUCERS = 3;
const CONSUMER = PRODUCERS;

class Death extends Error {}

/** One push or pop, what happens at one of its atomic operations, and whether the thread dies there. */
interface Turn {
  readonly thread: number;
  /** Which atomic operation is interrupted, from 0; beyond the last: none. */
  readonly at: number;
  readonly dies: boolean;
  readonly meanwhile: readonly Turn[];
}

const { turns } = fc.letrec<{ turn: Turn; turns: readonly Turn[] }>((tie) => ({
  turn: fc.record({
    thread: fc.integer({ min: 0, max: CONSUMER }),
    at: fc.integer({ min: 0, max: 7 }),
    dies: fc.boolean(),
    meanwhile: fc.oneof({ maxDepth: 3 }, fc.constant([]), tie("turns")),
  }),
  turns: fc.array(tie("turn"), { maxLength: 12 }),
}));

/** What a mailbox is used for: numbered messages, all fields alike, so that a torn one shows. */
class World {
  readonly words = new Int32Array(new SharedArrayBuffer(mailboxWords(CAPACITY) * 4));
  readonly taken: number[][] = Array.from({ length: PRODUCERS }, () => []);
  /** Numbers that were pushed for certain, and those of pushes in which the producer died. */
  readonly sent: number[][] = Array.from({ length: PRODUCERS }, () => []);
  readonly doubtful: number[][] = Array.from({ length: PRODUCERS }, () => []);
  readonly numbers: number[] = Array.from({ length: PRODUCERS }, () => 0);
  readonly deaths: number[] = Array.from({ length: CONSUMER + 1 }, () => 0);
  readonly #busy = new Set<number>();
  readonly #producers: Mailbox[];
  #consumer: Mailbox;
  #interrupt: ((() => void) | undefined)[] = [];

  constructor() {
    Mailbox.initialise(this.words);
    this.#producers = this.numbers.map((_, producer) => new Mailbox(this.words, producer));
    this.#consumer = new Mailbox(this.words);
    for (const name of ["load", "store", "compareExchange", "add"] as const) {
      const original = Atomics[name] as (...given: unknown[]) => never;
      vi.spyOn(Atomics, name).mockImplementation((...given: unknown[]) => {
        this.#interrupt.at(-1)?.();
        return original(...given);
      });
    }
  }

  run(turn: Turn): void {
    const { thread, at, dies, meanwhile } = turn;
    // A thread does one thing at a time.
    if (this.#busy.has(thread)) return;
    this.#busy.add(thread);
    let operation = 0;
    this.#interrupt.push(() => {
      if (operation++ !== at) return;
      for (const other of meanwhile) this.run(other);
      if (dies) throw new Death();
    });
    try {
      if (thread === CONSUMER) this.#take();
      else this.#push(thread);
    } catch (error) {
      if (!(error instanceof Death)) throw error;
      this.deaths[thread] = this.deaths[thread]! + 1;
      this.#interrupt.push(undefined);
      this.#revive(thread);
      this.#interrupt.pop();
    } finally {
      this.#interrupt.pop();
      this.#busy.delete(thread);
    }
  }

  /** Nobody is interrupted any more: everything that is there comes out. */
  drain(): void {
    while (this.#take());
  }

  push(producer: number): boolean {
    return this.#push(producer);
  }
  holes(): number {
    return this.#consumer.holes();
  }
  empty(): boolean {
    return this.#consumer.size() === 0 && this.#consumer.arm();
  }

  #push(producer: number): boolean {
    const number = (this.numbers[producer] = this.numbers[producer]! + 1);
    const message = { kind: "lookup", slot: producer, generation: number } as const;
    this.doubtful[producer]!.push(number);
    const pushed = this.#producers[producer]!.push({
      ...message,
      attempt: number,
      tokens: number,
      hashedBlocks: 0,
    });
    this.doubtful[producer]!.pop();
    if (pushed) this.sent[producer]!.push(number);
    return pushed;
  }

  #take(): boolean {
    const message = this.#consumer.pop();
    if (message === null) return false;
    if (message.kind !== "lookup") throw new Error(`never sent: ${message.kind}`);
    const { slot, generation, attempt, tokens } = message;
    expect([attempt, tokens]).toEqual([generation, generation]);
    this.taken[slot]!.push(generation);
    return true;
  }

  #revive(thread: number): void {
    if (thread === CONSUMER) this.#consumer = new Mailbox(this.words);
    else {
      this.#consumer.producerDied(thread);
      this.#producers[thread] = new Mailbox(this.words, thread);
    }
  }
}

afterEach(() => {
  vi.restoreAllMocks();
});

test("every interruption and death leaves a mailbox that goes on", () => {
  fc.assert(
    fc
      .property(turns, (plan) => {
        const world = new World();
        for (const turn of plan) world.run(turn);
        world.drain();
        expect(world.empty()).toBe(true);
        // Two laps by each producer in turn: no record is lost to the mailbox.
        for (let round = 0; round < 2 * CAPACITY; round++)
          for (let producer = 0; producer < PRODUCERS; producer++) {
            expect(world.push(producer)).toBe(true);
            world.drain();
          }
        const dead = world.deaths.slice(0, PRODUCERS).reduce((sum, deaths) => sum + deaths, 0);
        expect(world.holes()).toBeLessThanOrEqual(dead);
        for (let producer = 0; producer < PRODUCERS; producer++) {
          const taken = world.taken[producer]!;
          // In order, hence none twice.
          expect(taken).toEqual([...new Set(taken)].toSorted((left, right) => left - right));
          const known = [...world.sent[producer]!, ...world.doubtful[producer]!];
          expect(taken.filter((number) => !known.includes(number))).toEqual([]);
          // A consumer that died had read one message at most; living consumers lose none.
          const lost = world.sent[producer]!.filter((number) => !taken.includes(number));
          expect(lost.length).toBeLessThanOrEqual(world.deaths[CONSUMER]!);
        }
      })
      .afterEach(() => vi.restoreAllMocks()),
    { seed: 20_240_611, numRuns: 1500 },
  );
});

test("claimed, a lap by others, published late: nothing is passed over and nothing is overwritten", () => {
  const others: Turn[] = [];
  for (let round = 0; round < 3 * CAPACITY; round++)
    for (const thread of [1, CONSUMER, 2, CONSUMER])
      others.push({ thread, at: 99, dies: false, meanwhile: [] });
  for (let at = 0; at < 6; at++) {
    const world = new World();
    world.run({ thread: 0, at, dies: false, meanwhile: others });
    world.drain();
    expect(world.taken[0]).toEqual([1]);
    expect(world.holes()).toBe(0);
    expect(world.empty()).toBe(true);
    vi.restoreAllMocks();
  }
});

test("a producer that lost its claim and was refused does not hold back a dead winner's hole", () => {
  const world = new World();
  for (let filled = 1; filled < CAPACITY; filled++) world.push(2);
  // Producer 0 stops before its compareExchange; producer 1 takes the position and dies before it publishes.
  const winner = { thread: 1, at: 4, dies: true, meanwhile: [] };
  world.run({ thread: 0, at: 3, dies: false, meanwhile: [winner] });
  expect(world.deaths[1]).toBe(1);
  expect(world.sent[0]).toEqual([]);
  world.drain();
  expect(world.holes()).toBe(1);
  expect(world.empty()).toBe(true);
});
