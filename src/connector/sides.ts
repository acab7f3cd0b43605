import type {
  ActorGone,
  ActorRestarted,
  Hashed,
  LoadDone,
  LookupDone,
  SaveDone,
} from "../actors/messages.ts";
import { ACTOR_COUNT, ACTOR_LOADER, ACTOR_SAVER } from "../actors/messages.ts";
import type { ConnectorMetadata, ConnectorOutput } from "./hooks.ts";
import { OutputAggregator } from "./output-aggregator.ts";
import { clearConnectorOutput, createConnectorOutput } from "./outputs.ts";
import type { SchedulerPorts } from "./ports.ts";
import { SchedulerSide } from "./scheduler-side.ts";
import { WorkerSide } from "./worker-side.ts";

export type ConnectorMessage =
  | Hashed
  | LookupDone
  | LoadDone
  | SaveDone
  | ActorRestarted
  | ActorGone;

/** The scheduler side and all worker sides of a process on one thread: what the scheduler actor and `Connector` drive. */
export class ConnectorSides {
  readonly hooks: SchedulerSide;
  readonly workers: readonly WorkerSide[];
  readonly aggregator: OutputAggregator;
  readonly #ofRank: ConnectorOutput;
  readonly #merged: ConnectorOutput;
  /** By ACTOR_ number, 1: given up. Nothing is sent to it. */
  readonly #gone = new Uint8Array(ACTOR_COUNT);

  constructor(given: SchedulerPorts) {
    const ports: SchedulerPorts = {
      ...given,
      nowMs: () => given.nowMs(),
      flushWakes: () => given.flushWakes(),
      readLookup: (slot) => given.readLookup(slot),
      send: (actor, message) => {
        if (this.#gone[actor] === 0) given.send(actor, message);
      },
    };
    const { jobSlots } = ports.tables.dimensions;
    this.hooks = new SchedulerSide(ports);
    this.workers = Array.from({ length: ports.ranks }, (_, rank) => new WorkerSide(ports, rank));
    this.aggregator = new OutputAggregator(ports.tables);
    this.#ofRank = createConnectorOutput(jobSlots);
    this.#merged = createConnectorOutput(jobSlots);
    for (let actor = 0; actor < ACTOR_COUNT; actor++)
      if (given.gone?.(actor) === true) this.receive({ kind: "actorGone", actor });
  }

  /** After a restart, before the first message: see SchedulerSide.adopt and WorkerSide.adopt. */
  adopt(): void {
    this.hooks.adopt();
    for (const worker of this.workers) worker.adopt();
    // What was waited for again just now, nobody works off.
    for (const actor of [ACTOR_LOADER, ACTOR_SAVER])
      if (this.#gone[actor] === 1) this.#actorGone({ kind: "actorGone", actor });
  }

  /** True: it was expected. False: late, duplicate or unknown; counted and logged. */
  receive(message: ConnectorMessage): boolean {
    if (message.kind === "actorRestarted") return this.#actorRestarted(message);
    if (message.kind === "actorGone") return this.#actorGone(message);
    if (message.kind !== "loadDone" && message.kind !== "saveDone")
      return this.hooks.receive(message);
    const worker = this.workers[message.worker];
    return worker === undefined ? false : worker.receive(message);
  }

  #actorRestarted(message: ActorRestarted): boolean {
    if (message.actor === ACTOR_LOADER || message.actor === ACTOR_SAVER) {
      for (const worker of this.workers) worker.actorRestarted(message.actor);
    }
    return this.hooks.receive(message);
  }

  #actorGone(message: ActorGone): boolean {
    const { actor } = message;
    this.#gone[actor] = 1;
    if (actor === ACTOR_LOADER || actor === ACTOR_SAVER)
      for (const worker of this.workers) worker.actorGone(actor);
    return this.hooks.receive(message);
  }

  startLoads(metadata: ConnectorMetadata): void {
    for (const worker of this.workers) worker.startLoads(metadata);
  }
  startSaves(metadata: ConnectorMetadata): void {
    this.hooks.stepRan();
    for (const worker of this.workers) worker.startSaves(metadata);
  }

  /** Makes and starts the saves that ended requests still owe; visits the slots that wait for none any more. */
  settleSaves(visit: (slot: number) => void): void {
    const metadata = this.hooks.settleSaves(visit);
    if (metadata === null) return;
    // Their steps are over; that of another step is not.
    for (const worker of this.workers) worker.startSaves(metadata);
  }

  /** Valid until the next call. */
  collect(): ConnectorOutput {
    clearConnectorOutput(this.#merged);
    for (const [rank, worker] of this.workers.entries()) {
      clearConnectorOutput(this.#ofRank);
      worker.collect(this.#ofRank);
      this.aggregator.add(rank, this.#ofRank, this.#merged);
    }
    return this.#merged;
  }
}
