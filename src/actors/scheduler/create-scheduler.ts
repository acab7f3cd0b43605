import type { Tables } from "../../blocks/tables.ts";
import type { ConnectorSettings } from "../../connector/settings.ts";
import { ConnectorSides } from "../../connector/sides.ts";
import type { KvEventWriter } from "../../events/event-records.ts";
import type { CounterBlock } from "../../trace/counters.ts";
import { ACTOR_LOOKUP } from "../messages.ts";
import type { ActorContext } from "../step.ts";
import { createSchedulerMemory } from "./core.ts";
import { LocalCacheEvents } from "./local-cache-events.ts";
import { SchedulerActor } from "./scheduler-actor.ts";

export interface CreateSchedulerOptions {
  readonly tables: Tables;
  readonly settings: ConnectorSettings;
  /** Worker sides (ranks) of this process; all on the scheduler's thread. */
  readonly ranks: number;
  /** False: no connector, the local prefix cache alone. */
  readonly pool: boolean;
  readonly endTokenIds: readonly number[];
  readonly tokensPerStepMax: number;
  readonly sequencesMax: number;
  readonly counterBlock?: CounterBlock;
  /**
   * Wakes sleeping receivers in the middle of a step, for a lookup that this thread waits for (lookup_async false). Absent in
   * the simulator: there a synchronous lookup parks the request.
   */
  readonly flushWakes?: () => void;
  /** Actors that were given up before this scheduler started. Absent: none. */
  readonly gone?: (actor: number) => boolean;
  /** Where KV events of the local prefix cache go; absent: none are made. */
  readonly events?: KvEventWriter | undefined;
}

/** The scheduler actor with its connector: the same for the thread host and the simulated host. */
export function createScheduler(
  options: CreateSchedulerOptions,
  context: ActorContext,
): SchedulerActor {
  const { tables, settings, flushWakes, gone, events } = options;
  const memory = createSchedulerMemory(
    tables,
    events === undefined ? null : new LocalCacheEvents(tables, events, context.epoch),
  );
  const connector = options.pool
    ? new ConnectorSides({
        tables,
        settings,
        log: context.log,
        trace: context.trace,
        nowMs: () => context.nowMs(),
        send: (actor, message) => context.send(actor, message),
        blockPages: memory.pages,
        pool: memory.allocator,
        ranks: options.ranks,
        flushWakes: flushWakes ?? ((): void => undefined),
        readLookup: (slot) => context.readLookup(slot),
        hashBlocks: (tokenPage, hashPage, extrasPage, fromBlock, toBlock) =>
          context.hashBlocks(tokenPage, hashPage, extrasPage, fromBlock, toBlock),
        ...(gone === undefined ? {} : { gone }),
        ...(context.readMembership === undefined
          ? {}
          : { readMembership: context.readMembership.bind(context) }),
        ...(flushWakes === undefined || context.waitLookup === undefined
          ? {}
          : { waitLookup: context.waitLookup.bind(context) }),
      })
    : null;
  return new SchedulerActor(
    {
      tables,
      memory,
      connector,
      endTokenIds: options.endTokenIds,
      tokensPerStepMax: options.tokensPerStepMax,
      sequencesMax: options.sequencesMax,
      lookupAsync: settings.lookupAsync,
      loadAsync: settings.loadAsync,
      loadFailurePolicy: settings.loadFailurePolicy,
      lookupGone: gone?.(ACTOR_LOOKUP) === true,
      ...(options.counterBlock === undefined ? {} : { counterBlock: options.counterBlock }),
    },
    context,
  );
}
