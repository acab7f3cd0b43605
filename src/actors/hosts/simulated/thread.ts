import type { Tables } from "../../../blocks/tables.ts";
import type { EngineChannel } from "../../../store/engine.ts";
import type { Actor, ActorContext, Inbox } from "../../step.ts";
import { Lifetime } from "./lifetime.ts";
import { mortalContext, type SimulatedContext } from "./mortal-context.ts";

export interface SimulatedActor {
  readonly actor: number;
  /** Makes the actor anew: its private tables are gone, the shared ones are as it left them. */
  readonly create: (epoch: number, context: ActorContext) => Actor;
  /** Attaches the engine channel for an epoch; absent for actors without one. */
  readonly attachEngine?: (epoch: number) => EngineChannel;
  /** Of that channel. */
  readonly engineWords?: Int32Array;
}

/**
 * What the thread of one actor is to the simulator: when it steps next, the incarnation that runs on it (none between a death
 * and the restart), and how long that one has to live.
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
  readonly #lifetime: Lifetime;

  /** `tables`: all words that actors share. */
  constructor(plan: SimulatedActor, tables: readonly Int32Array[]) {
    this.plan = plan;
    const { engineWords } = plan;
    this.#lifetime = new Lifetime(engineWords === undefined ? tables : [...tables, engineWords]);
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
  /** The actor dies at its `places`-th place to die from here, a dead one's successor; Infinity: it does not. */
  dieAfter(places: number): void {
    this.#lifetime.endAfter(places);
  }

  /** One step of the incarnation. False: it died in the middle of it. */
  step(inbox: Inbox, tables: Tables): boolean {
    this.#wakeMs = Infinity;
    return this.#lifetime.live(() => {
      this.#deadlineMs = this.instance!.step(inbox, tables, this.#context!);
    });
  }

  /** The incarnation is gone, with its private tables. */
  end(): void {
    this.instance = undefined;
    this.#deadlineMs = Infinity;
    this.#lifetime.endAfter(Infinity);
  }

  /**
   * Starts the next incarnation, which steps at once. Epoch and engine are the new ones when `createContext` is called. False: it
   * died before it was made.
   */
  revive(nowMs: number, createContext: () => SimulatedContext): boolean {
    this.epoch++;
    this.#wakeMs = nowMs;
    this.#deadlineMs = Infinity;
    return this.#lifetime.live(() => {
      this.engine = this.plan.attachEngine?.(this.epoch);
      this.#context = mortalContext(createContext(), this.#lifetime);
      this.instance = this.plan.create(this.epoch, this.#context);
    });
  }
}
