import { REQUEST_LOOKUP_WORD } from "../../../blocks/layout.ts";
import type { Tables } from "../../../blocks/tables.ts";
import { brokenInvariant } from "../../../errors.ts";
import type { EngineChannel } from "../../../store/engine.ts";
import { NO_TRACE, type TraceWriter } from "../../../trace/events.ts";
import { Mailbox, mailboxWords } from "../../mailbox/mailbox.ts";
import { ACTOR_COUNT, ACTOR_NAMES, type Message, type MessageKind } from "../../messages.ts";
import type { Actor, ActorContext, Log } from "../../step.ts";
import { EventQueue } from "./event-queue.ts";
import type { SimulatedContext } from "./mortal-context.ts";
import type { SeededRandom } from "./random.ts";
import { SimulatedThread, type SimulatedActor } from "./thread.ts";

export interface SimulatedHostOptions {
  readonly tables: Tables;
  readonly random: SeededRandom;
  readonly log: Log;
  /** Trace of an actor. Its calls are places where the actor may die. */
  readonly trace?: (actor: number) => TraceWriter;
  readonly hashBlocks: ActorContext["hashBlocks"];
  /** By ACTOR_ number. */
  readonly mailboxCapacities: readonly number[];
  /** Longest random delay between a wake and the step that it causes. */
  readonly wakeDelayMsMax: number;
  /** Longest time a dead actor stays dead. */
  readonly restartDelayMsMax: number;
  /** Messages of which a second copy arrives, sometimes much later: a receiver has to drop it. Absent: none. */
  readonly repeats?: {
    readonly kinds: ReadonlySet<MessageKind>;
    readonly probability: number;
    readonly delayMsMax: number;
  };
  readonly observer?: SimulatedObserver;
  readonly readMembership?: ActorContext["readMembership"];
}

/** Sees everything that happens between actors, in order. */
export interface SimulatedObserver {
  /** `repeated`: a second copy. */
  sent(actor: number, message: Message, repeated: boolean): void;
  stepped(actor: number): void;
  died(actor: number, epoch: number, moment: DeathMoment): void;
}

/** Between two steps, in the middle of one, or before the first, while it takes over from its predecessor. */
export type DeathMoment = "between steps" | "in a step" | "at its start";

/**
 * Runs the same actors as the thread host, in one thread, on a virtual clock, in a seeded order, with seeded deaths.
 *
 * Order: of all actors that are awake now one is drawn at random and steps once. Nothing else happens during a step, so a race
 * inside of one is not found here; the thread tests and ThreadSanitizer look for those. Deaths are finer: an actor may die at any
 * context call that others see, and before any operation on a shared word.
 */
export class SimulatedHost {
  readonly clock = new EventQueue();
  #deathsEnded = false;
  readonly #deaths = new Int32Array(ACTOR_COUNT);
  readonly #options: SimulatedHostOptions;
  readonly #mailboxWords: readonly Int32Array[];
  /** Consumer's ends; producers use them too, in turn. */
  readonly #mailboxes: Mailbox[];
  readonly #threads: (SimulatedThread | undefined)[] = Array.from(
    { length: ACTOR_COUNT },
    () => undefined,
  );

  constructor(options: SimulatedHostOptions) {
    this.#options = options;
    this.#mailboxWords = Array.from({ length: ACTOR_COUNT }, (_, actor) => {
      const bytes = mailboxWords(options.mailboxCapacities[actor]!) * 4;
      const words = new Int32Array(new SharedArrayBuffer(bytes));
      Mailbox.initialise(words);
      return words;
    });
    this.#mailboxes = this.#mailboxWords.map((words) => new Mailbox(words));
  }

  add(plan: SimulatedActor): void {
    const { requests, jobs, steps, logprobs, blocks, tokens, hashes } = this.#options.tables;
    const arenas = [blocks, tokens, hashes].map(({ words }) => words);
    const thread = new SimulatedThread(plan, [requests, jobs, steps, logprobs, ...arenas]);
    this.#threads[plan.actor] = thread;
    this.#revive(thread);
  }

  mailbox(actor: number): Mailbox {
    return this.#mailboxes[actor]!;
  }
  actor(actor: number): Actor | undefined {
    return this.#threads[actor]?.instance;
  }

  /** The engine channel of an actor's incarnation, without its places to die. */
  engine(actor: number): EngineChannel | undefined {
    return this.#threads[actor]?.engine;
  }

  /** Send from outside the actors (front end, tests). */
  send(actor: number, message: Message): void {
    if (!this.#mailboxes[actor]!.push(message))
      brokenInvariant(`mailbox of ${ACTOR_NAMES[actor]} is full`, message.kind);
    this.#options.observer?.sent(actor, message, false);
    this.wake(actor);
    this.#maybeRepeat(actor, message);
  }

  #maybeRepeat(actor: number, message: Message): void {
    const { repeats, random, observer } = this.#options;
    if (repeats === undefined || !repeats.kinds.has(message.kind)) return;
    if (!random.chance(repeats.probability)) return;
    this.clock.schedule(random.next() * repeats.delayMsMax, () => {
      // Mailboxes are sized for what is sent, not for copies: those leave half of it alone.
      const mailbox = this.#mailboxes[actor]!;
      if (mailbox.room() < mailbox.capacity / 2 || !mailbox.push(message)) return;
      observer?.sent(actor, message, true);
      this.wake(actor);
    });
  }

  /** The actor's thread gets no processor for that long; its mailbox fills. */
  freeze(actor: number, durationMs: number): void {
    this.#threads[actor]?.freezeUntil(this.clock.nowMs + durationMs);
  }

  /** Nobody dies any more: orderly shutdown begins, and the supervisor restarts nothing in it. */
  endDeaths(): void {
    this.#deathsEnded = true;
    for (const thread of this.#threads) thread?.dieAfter(Infinity);
  }

  /** An engine completion or a message: the actor steps after a random delay. */
  wake(actor: number): void {
    const thread = this.#threads[actor];
    if (thread === undefined) return;
    thread.wakeAt(this.clock.nowMs + this.#options.random.next() * this.#options.wakeDelayMsMax);
  }

  /**
   * Lets the actor die in the middle of its next step, at its `places`-th place to die (or between steps: 0). Of a dead one it is
   * the successor that dies, from its making on.
   */
  armDeath(actor: number, places: number): void {
    const thread = this.#threads[actor];
    if (thread === undefined || this.#deathsEnded) return;
    if (places > 0) thread.dieAfter(places);
    else if (thread.instance !== undefined) this.#kill(thread, "between steps");
  }

  deathsOf(actor: number): number {
    return this.#deaths[actor]!;
  }

  /** Runs until `done()` or until nothing can happen any more (false) or `steps` are used up (false). */
  run(done: () => boolean, stepsMax: number): boolean {
    for (let steps = 0; steps < stepsMax; steps++) {
      if (done()) return true;
      this.clock.runDue();
      const thread = this.#draw();
      if (thread !== undefined) {
        this.#step(thread);
        continue;
      }
      const next = this.#nextTimeMs();
      if (next === Infinity) return done();
      this.clock.nowMs = next;
    }
    return done();
  }

  #draw(): SimulatedThread | undefined {
    let chosen: SimulatedThread | undefined;
    let awake = 0;
    for (const thread of this.#threads) {
      if (thread === undefined || thread.dueMs() > this.clock.nowMs) continue;
      awake++;
      if (this.#options.random.below(awake) === 0) chosen = thread;
    }
    return chosen;
  }

  #nextTimeMs(): number {
    let next = this.clock.nextDueMs();
    for (const thread of this.#threads) next = Math.min(next, thread?.dueMs() ?? Infinity);
    return next;
  }

  #step(thread: SimulatedThread): void {
    const { actor } = thread.plan;
    this.#options.observer?.stepped(actor);
    const mailbox = this.#mailboxes[actor]!;
    if (!thread.step({ next: () => mailbox.pop() }, this.#options.tables))
      this.#kill(thread, "in a step");
    else if (mailbox.size() > 0) this.wake(actor);
  }

  #kill(thread: SimulatedThread, moment: DeathMoment): void {
    const { actor } = thread.plan;
    thread.end();
    this.#deaths[actor]!++;
    this.clock.schedule(this.#options.random.next() * this.#options.restartDelayMsMax, () =>
      this.#restart(thread),
    );
    this.#options.observer?.died(actor, thread.epoch, moment);
  }

  /** Others are told of a successor that is there. */
  #restart(thread: SimulatedThread): void {
    const { actor } = thread.plan;
    // What its predecessor knew of the mailbox and had not stored is gone.
    this.#mailboxes[actor] = new Mailbox(this.#mailboxWords[actor]!);
    if (!this.#revive(thread)) return this.#kill(thread, "at its start");
    for (const other of this.#threads) {
      if (other === undefined || other === thread) continue;
      this.send(other.plan.actor, { kind: "actorRestarted", actor, epoch: thread.epoch });
    }
  }

  #revive(thread: SimulatedThread): boolean {
    return thread.revive(this.clock.nowMs, () => this.#context(thread));
  }

  #context({ plan, epoch, engine }: SimulatedThread): SimulatedContext {
    const { random, log, hashBlocks, tables, readMembership } = this.#options;
    return {
      epoch,
      nowMs: () => this.clock.nowMs,
      random: () => random.next(),
      log,
      trace: this.#options.trace?.(plan.actor) ?? NO_TRACE,
      get engine(): EngineChannel {
        return engine ?? brokenInvariant("actor without an engine channel", plan.actor);
      },
      send: (to, message) => this.send(to, message),
      ...(readMembership === undefined ? {} : { readMembership }),
      room: (to) => this.#mailboxes[to]!.room(),
      // Pairs with the publishing store in lookup/answers.ts; here both run on one thread.
      readLookup: (slot) =>
        Atomics.load(tables.requests, tables.request(slot) + REQUEST_LOOKUP_WORD),
      hashBlocks,
    };
  }
}
