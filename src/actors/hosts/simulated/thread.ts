import type { Tables } from "../../../blocks/tables.ts";
import type { EngineChannel } from "../../../store/engine.ts";
import { ACTOR_NAMES } from "../../messages.ts";
import type { Actor, ActorContext, Inbox } from "../../step.ts";
import { mortalContext, type SimulatedContext } from "./mortal-context.ts";

export interface SimulatedActor {
  readonly actor: number;
  /** Makes the actor anew: its private tables are gone, the shared ones are as it left them. */
  readonly create: (epoch: number, context: ActorContext) => Actor;
  /** Attaches the engine channel for an epoch; absent for actors without one. */
  readonly attachEngine?: (epoch: number) => EngineChannel;
}

/** Thrown out of a context call to end an actor in the middle of a step, as a terminated thread ends between two stores. */
class SimulatedDeath extends Error {}

/**
 * What the thread of one actor is to the simulator: when it steps next, the incarnation that runs on it (none between a death
 * and the restart), and how many context calls that one has to live.
 */
export class SimulatedThread {
  readonly plan: SimulatedActor;
  /** Of the incarnation, the last one's when it is dead. */
  epoch = 0;
  instance: Actor | undefined;
  /** The incarnation's engine channel, without its places to die. */
  engine: EngineChannel | undefined;
  #context: ActorContext | undefined;
  #wakeMs = Infinity;
  #deadlineMs = Infinity;
  #frozenMs = 0;
  /** Context calls left before the actor dies in the middle of a step; Infinity: it does not. */
  #callsToDeath = Infinity;

  constructor(plan: SimulatedActor) {
    this.plan = plan;
  }

  /** When the actor steps next; Infinity for a dead one. */
  dueMs(): number {
    if (this.instance === undefined) return Infinity;
    return Math.max(this.#frozenMs, Math.min(this.#wakeMs, this.#deadlineMs));
  }
  wakeAt(timeMs: number): void {
    if (timeMs < this.#wakeMs) this.#wakeMs = timeMs;
  }
  /** The thread gets no processor before this time. */
  freezeUntil(timeMs: number): void {
    this.#frozenMs = Math.max(this.#frozenMs, timeMs);
  }
  /** The actor dies at its `calls`-th context call from here; Infinity: it does not. */
  dieAfter(calls: number): void {
    this.#callsToDeath = calls;
  }

  /** One step of the incarnation. False: it died in the middle of it. */
  step(inbox: Inbox, tables: Tables): boolean {
    this.#wakeMs = Infinity;
    try {
      this.#deadlineMs = this.instance!.step(inbox, tables, this.#context!);
      return true;
    } catch (error) {
      if (error instanceof SimulatedDeath) return false;
      throw error;
    }
  }

  /** The incarnation is gone, with its private tables. */
  end(): void {
    this.instance = undefined;
    this.#callsToDeath = Infinity;
    this.#deadlineMs = Infinity;
  }

  /** Starts the next incarnation, which steps at once. Epoch and engine are the new ones when `createContext` is called. */
  revive(nowMs: number, createContext: () => SimulatedContext): void {
    this.epoch++;
    this.engine = this.plan.attachEngine?.(this.epoch);
    this.#context = mortalContext(createContext(), () => {
      if (--this.#callsToDeath <= 0) throw new SimulatedDeath(ACTOR_NAMES[this.plan.actor]);
    });
    this.instance = this.plan.create(this.epoch, this.#context);
    this.#wakeMs = nowMs;
    this.#deadlineMs = Infinity;
  }
}
