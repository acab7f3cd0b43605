import { REQUEST_LOOKUP_WORD } from "../../../blocks/layout.ts";
import type { Tables } from "../../../blocks/tables.ts";
import { brokenInvariant } from "../../../errors.ts";
import type { EngineChannel } from "../../../store/engine.ts";
import { NO_TRACE, type TraceWriter } from "../../../trace/events.ts";
import { Mailbox, mailboxWords } from "../../mailbox/mailbox.ts";
import { ACTOR_COUNT, ACTOR_NAMES, type Message, type MessageKind } from "../../messages.ts";
import type { Actor, ActorContext, Inbox, Log } from "../../step.ts";
import { EventQueue } from "./event-queue.ts";
import { MortalChannel } from "./mortal-channel.ts";
import type { SeededRandom } from "./random.ts";

/** Thrown out of a context call to end an actor in the middle of a step, as a terminated thread ends between two stores. */
export class SimulatedDeath extends Error {}

export interface SimulatedActor {
  readonly actor: number;
  /** Makes the actor anew: its private tables are gone, the shared ones are as it left them. */
  readonly create: (epoch: number, context: ActorContext) => Actor;
  /** Attaches the engine channel for an epoch; absent for actors without one. */
  readonly attachEngine?: (epoch: number) => EngineChannel;
}

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
  died(actor: number, epoch: number, inStep: boolean): void;
}

interface Running {
  readonly plan: SimulatedActor;
  epoch: number;
  instance: Actor | undefined;
  context: ActorContext | undefined;
  engine: EngineChannel | undefined;
  wakeMs: number;
  deadlineMs: number;
  /** The thread gets no processor before this time. */
  frozenMs: number;
  /** Context calls left before the actor dies in the middle of a step; Infinity: it does not. */
  callsToDeath: number;
}

/** When the actor steps next. */
function dueMs(running: Running): number {
  return Math.max(running.frozenMs, Math.min(running.wakeMs, running.deadlineMs));
}

/**
 * Runs the same actors as the thread host, in one thread, on a virtual clock, in a seeded order, with seeded deaths.
 *
 * Order: of all actors that are awake now one is drawn at random and steps once. Nothing else happens between the context
 * calls of one step, so a race inside a step is not found here; the thread tests and ThreadSanitizer look for those.
 */
export class SimulatedHost {
  readonly clock = new EventQueue();
  #deathsEnded = false;
  readonly #deaths = new Int32Array(ACTOR_COUNT);
  readonly #options: SimulatedHostOptions;
  readonly #mailboxes: Mailbox[] = [];
  readonly #actors: (Running | undefined)[] = Array.from({ length: ACTOR_COUNT }, () => undefined);

  constructor(options: SimulatedHostOptions) {
    this.#options = options;
    for (let actor = 0; actor < ACTOR_COUNT; actor++) {
      const words = new Int32Array(
        new SharedArrayBuffer(mailboxWords(options.mailboxCapacities[actor]!) * 4),
      );
      Mailbox.initialise(words);
      this.#mailboxes.push(new Mailbox(words));
    }
  }

  add(plan: SimulatedActor): void {
    const running: Running = {
      plan,
      epoch: 0,
      instance: undefined,
      context: undefined,
      engine: undefined,
      wakeMs: Infinity,
      deadlineMs: Infinity,
      frozenMs: 0,
      callsToDeath: Infinity,
    };
    this.#actors[plan.actor] = running;
    this.#revive(running);
  }

  mailbox(actor: number): Mailbox {
    return this.#mailboxes[actor]!;
  }
  actor(actor: number): Actor | undefined {
    return this.#actors[actor]?.instance;
  }

  /** The engine channel of an actor's incarnation, without its places to die. */
  engine(actor: number): EngineChannel | undefined {
    return this.#actors[actor]?.engine;
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
    const running = this.#actors[actor];
    if (running !== undefined)
      running.frozenMs = Math.max(running.frozenMs, this.clock.nowMs + durationMs);
  }

  /** Nobody dies any more: orderly shutdown begins, and the supervisor restarts nothing in it. */
  endDeaths(): void {
    this.#deathsEnded = true;
    for (const running of this.#actors) if (running !== undefined) running.callsToDeath = Infinity;
  }

  /** An engine completion or a message: the actor steps after a random delay. */
  wake(actor: number): void {
    const running = this.#actors[actor];
    if (running === undefined) return;
    const at = this.clock.nowMs + this.#options.random.next() * this.#options.wakeDelayMsMax;
    if (at < running.wakeMs) running.wakeMs = at;
  }

  /** Lets the actor die in the middle of its next step, at its `calls`-th context call (or between steps: 0). */
  armDeath(actor: number, calls: number): void {
    const running = this.#actors[actor];
    if (running?.instance === undefined || this.#deathsEnded) return;
    if (calls === 0) this.#kill(running, false);
    else running.callsToDeath = calls;
  }

  deathsOf(actor: number): number {
    return this.#deaths[actor]!;
  }

  /** Runs until `done()` or until nothing can happen any more (false) or `steps` are used up (false). */
  run(done: () => boolean, stepsMax: number): boolean {
    for (let steps = 0; steps < stepsMax; steps++) {
      if (done()) return true;
      this.clock.runDue();
      const running = this.#draw();
      if (running !== undefined) {
        this.#step(running);
        continue;
      }
      const next = this.#nextTimeMs();
      if (next === Infinity) return done();
      this.clock.nowMs = next;
    }
    return done();
  }

  #draw(): Running | undefined {
    let chosen: Running | undefined;
    let awake = 0;
    for (const running of this.#actors) {
      if (running?.instance === undefined) continue;
      if (dueMs(running) > this.clock.nowMs) continue;
      awake++;
      if (this.#options.random.below(awake) === 0) chosen = running;
    }
    return chosen;
  }

  #nextTimeMs(): number {
    let next = this.clock.nextDueMs();
    for (const running of this.#actors) {
      if (running?.instance !== undefined) next = Math.min(next, dueMs(running));
    }
    return next;
  }

  #step(running: Running): void {
    running.wakeMs = Infinity;
    this.#options.observer?.stepped(running.plan.actor);
    const mailbox = this.#mailboxes[running.plan.actor]!;
    const inbox: Inbox = { next: () => mailbox.pop() };
    try {
      running.deadlineMs = running.instance!.step(inbox, this.#options.tables, running.context!);
    } catch (error) {
      if (!(error instanceof SimulatedDeath)) throw error;
      this.#kill(running, true);
      return;
    }
    if (mailbox.size() > 0) this.wake(running.plan.actor);
  }

  #kill(running: Running, inStep: boolean): void {
    this.#options.observer?.died(running.plan.actor, running.epoch, inStep);
    running.instance = undefined;
    running.callsToDeath = Infinity;
    running.deadlineMs = Infinity;
    this.#deaths[running.plan.actor]!++;
    this.clock.schedule(this.#options.random.next() * this.#options.restartDelayMsMax, () => {
      this.#revive(running);
      for (const other of this.#actors) {
        if (other === undefined || other === running) continue;
        this.send(other.plan.actor, {
          kind: "actorRestarted",
          actor: running.plan.actor,
          epoch: running.epoch,
        });
      }
    });
  }

  #revive(running: Running): void {
    running.epoch++;
    running.context = this.#context(running);
    running.instance = running.plan.create(running.epoch, running.context);
    running.wakeMs = this.clock.nowMs;
    running.deadlineMs = Infinity;
  }

  #context(running: Running): ActorContext {
    const { random, log, hashBlocks, tables, readMembership } = this.#options;
    const { actor } = running.plan;
    const trace = this.#options.trace?.(actor) ?? NO_TRACE;
    running.engine = running.plan.attachEngine?.(running.epoch);
    const countCall = (): void => {
      if (--running.callsToDeath <= 0) throw new SimulatedDeath(ACTOR_NAMES[actor]);
    };
    const engine =
      running.engine === undefined ? undefined : new MortalChannel(running.engine, countCall);
    return {
      epoch: running.epoch,
      nowMs: () => this.clock.nowMs,
      random: () => random.next(),
      log,
      trace: {
        record: (event, slot, generation, first, second) => {
          countCall();
          trace.record(event, slot, generation, first, second);
        },
      },
      get engine(): EngineChannel {
        return engine ?? brokenInvariant("actor without an engine channel", actor);
      },
      send: (to, message) => {
        countCall();
        this.send(to, message);
      },
      ...(readMembership === undefined ? {} : { readMembership }),
      room: (to) => this.#mailboxes[to]!.room(),
      // Pairs with the publishing store in lookup/answers.ts; here both run on one thread.
      readLookup: (slot) =>
        Atomics.load(tables.requests, tables.request(slot) + REQUEST_LOOKUP_WORD),
      hashBlocks: (tokenPage, hashPage, extrasPage, fromBlock, toBlock) => {
        countCall();
        return hashBlocks(tokenPage, hashPage, extrasPage, fromBlock, toBlock);
      },
    };
  }
}
