import type { SimulatedHost } from "../../../src/actors/hosts/simulated/host.ts";
import { SimulatedModel } from "../../../src/actors/hosts/simulated/model.ts";
import type { SeededRandom } from "../../../src/actors/hosts/simulated/random.ts";
import { LoaderActor } from "../../../src/actors/loader/loader-actor.ts";
import { LookupActor } from "../../../src/actors/lookup/lookup-actor.ts";
import {
  ACTOR_LOADER,
  ACTOR_LOOKUP,
  ACTOR_MODEL,
  ACTOR_SAVER,
  ACTOR_SCHEDULER,
} from "../../../src/actors/messages.ts";
import { SaverActor } from "../../../src/actors/saver/saver-actor.ts";
import { createScheduler } from "../../../src/actors/scheduler/create-scheduler.ts";
import type { Tables } from "../../../src/blocks/tables.ts";
import { brokenInvariant } from "../../../src/errors.ts";
import type { WorkerKeySpace } from "../../../src/store/key-spaces.ts";
import type { SimulatedChannel } from "../../../src/store/model-engine.ts";
import { uniformRules } from "../../unit/store-world.ts";
import type { RunPlan } from "./workload.ts";

export interface ActorParts {
  readonly plan: RunPlan;
  readonly tables: Tables;
  readonly host: SimulatedHost;
  readonly random: SeededRandom;
  /** KV memory of each rank. */
  readonly memories: readonly Int32Array[];
  readonly workers: readonly WorkerKeySpace[];
  readonly lookups: SimulatedChannel;
  readonly loads: SimulatedChannel;
  readonly saves: SimulatedChannel;
}

/** The product's own actors, and the simulated model in the place of the real one. */
export function addActors(parts: ActorParts): void {
  addStoreActors(parts);
  addModel(parts);
  const { plan, tables, host } = parts;
  host.add({
    actor: ACTOR_SCHEDULER,
    create: (_epoch, context) =>
      createScheduler(
        {
          tables,
          settings: plan.settings,
          ranks: plan.shape.ranks,
          pool: true,
          endTokenIds: [],
          tokensPerStepMax: plan.tokensPerStepMax,
          sequencesMax: plan.sequencesMax,
        },
        context,
      ),
  });
}

function addStoreActors({ host, tables, workers, lookups, loads, saves }: ActorParts): void {
  const keySpace = workers[0] ?? brokenInvariant("run without ranks");
  const rules = uniformRules(tables.dimensions);
  host.add({
    actor: ACTOR_LOOKUP,
    attachEngine: (epoch) => lookups.attach(epoch),
    engineWords: lookups.words,
    create: () => new LookupActor({ tables, rules, keySpace }),
  });
  host.add({
    actor: ACTOR_LOADER,
    attachEngine: (epoch) => loads.attach(epoch),
    engineWords: loads.words,
    create: () => new LoaderActor({ tables, workers, rules }),
  });
  host.add({
    actor: ACTOR_SAVER,
    attachEngine: (epoch) => saves.attach(epoch),
    engineWords: saves.words,
    create: () => new SaverActor({ tables, workers, rules }),
  });
}

function addModel({ plan, host, random, memories }: ActorParts): void {
  host.add({
    actor: ACTOR_MODEL,
    create: () =>
      new SimulatedModel({
        memories,
        blockSize: plan.blockSize,
        shape: plan.shape,
        random,
        schedule: (delayMs, run) => host.clock.schedule(delayMs, run),
        wake: () => host.wake(ACTOR_MODEL),
        stepMsMax: 3,
        failureProbability: plan.faults.modelFailure,
        isCurrent: (model) => host.actor(ACTOR_MODEL) === model,
      }),
  });
}
