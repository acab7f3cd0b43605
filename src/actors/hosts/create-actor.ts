import { brokenInvariant } from "../../errors.ts";
import type { KvEventWriter } from "../../events/event-records.ts";
import type { CounterBlock } from "../../trace/counters.ts";
import { loadStaging } from "../loader/load-work.ts";
import { LoaderActor } from "../loader/loader-actor.ts";
import { LookupActor } from "../lookup/lookup-actor.ts";
import type { MismatchWords } from "../mismatch-words.ts";
import { ACTOR_LOADER, ACTOR_LOOKUP, ACTOR_SAVER, ACTOR_SCHEDULER } from "../messages.ts";
import type { ActorThreadData } from "../plan.ts";
import { SaverActor } from "../saver/saver-actor.ts";
import { createScheduler } from "../scheduler/create-scheduler.ts";
import type { Actor, ActorContext } from "../step.ts";
import type { ThreadEnds } from "./thread-ends.ts";

/** What an actor is made with besides its context. */
export interface ActorEnds extends Pick<ThreadEnds, "tables" | "gone"> {
  /** Wakes every actor that has got a message since the last call. */
  readonly flushWakes: () => void;
  /** Where the actor's KV events go; absent: none are made. */
  readonly events?: KvEventWriter | undefined;
  /** Where the loader tells of values of another size; absent in replays, which tell nobody. */
  readonly mismatch?: MismatchWords | undefined;
}

/** What of a thread's data an actor is made of. */
export interface ActorData extends Pick<ActorThreadData, "actor" | "connector" | "scheduler"> {
  readonly plan: Pick<ActorThreadData["plan"], "workers" | "rules">;
}

/** Makes the actor that a thread runs: of the same parts, the same actor, in a replay too. */
export function createActor(parts: {
  readonly data: ActorData;
  readonly ends: ActorEnds;
  readonly context: ActorContext;
  readonly counters: CounterBlock;
}): Actor {
  const { data, ends, context, counters } = parts;
  const { tables } = ends;
  const { workers, rules } = data.plan;
  const { staging, storeTierLog } = data.connector;
  switch (data.actor) {
    case ACTOR_LOOKUP:
      return new LookupActor({
        tables,
        keySpace: workers[0] ?? brokenInvariant("runtime without a worker side"),
        rules,
        metrics: counters,
        remote: data.connector.lookupRpcRole === "client",
      });
    case ACTOR_LOADER:
      return new LoaderActor({
        tables,
        workers,
        rules,
        metrics: counters,
        staging: staging === null ? undefined : loadStaging(staging),
        tierLog: storeTierLog,
        mismatch: ends.mismatch,
      });
    case ACTOR_SAVER:
      return new SaverActor({ tables, workers, rules, metrics: counters, events: ends.events });
    case ACTOR_SCHEDULER: {
      const limits = data.scheduler ?? brokenInvariant("scheduler thread without limits");
      return createScheduler(
        {
          tables,
          settings: data.connector,
          ranks: workers.length,
          pool: limits.pool,
          endTokenIds: limits.endTokenIds,
          tokensPerStepMax: limits.tokensPerStepMax,
          sequencesMax: limits.sequencesMax,
          counterBlock: counters,
          flushWakes: ends.flushWakes,
          gone: ends.gone,
          events: ends.events,
        },
        context,
      );
    }
    default:
      return brokenInvariant("no such actor thread", data.actor);
  }
}
