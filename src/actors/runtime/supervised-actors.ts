import { NONE } from "../../blocks/layout.ts";
import type { NativeBinding } from "../../native/binding.ts";
import { COUNTERS, CounterBlock } from "../../trace/counters.ts";
import type { TraceWriter } from "../../trace/events.ts";
import type { ThreadEnds } from "../hosts/thread-ends.ts";
import { openThreadTrace } from "../hosts/thread-trace.ts";
import {
  ACTOR_MODEL,
  ACTOR_SCHEDULER,
  ACTOR_SUPERVISOR,
  type ActorGone,
  type ActorRestarted,
} from "../messages.ts";
import { CONTROL_GONE_WORD, type RuntimePlan } from "../plan.ts";
import type { Log } from "../step.ts";
import type { RestartLimits } from "../supervision/restart-policy.ts";
import { Supervisor } from "../supervision/supervisor.ts";
import { drainChannel } from "./drained-channel.ts";

/** Without it no request of the built-in scheduler ends. */
export function isIndispensable(actor: number): boolean {
  return actor === ACTOR_SCHEDULER || actor === ACTOR_MODEL;
}

export interface SupervisedActors {
  readonly supervisor: Supervisor;
  /** This thread's lane: whatever the runtime itself records goes through it. */
  readonly trace: TraceWriter;
  /** Waits no more for batches of actors that were given up. Call when the runtime stops. */
  readonly endDrains: () => void;
}

/** The supervisor of a runtime: counts and traces what happens to its actors, and tells those in `audience`. */
export function superviseActors(parts: {
  readonly plan: RuntimePlan;
  readonly ends: ThreadEnds;
  readonly native: NativeBinding;
  readonly log: Log;
  /** Who gets messages about others: ACTOR_ numbers. */
  readonly audience: () => readonly number[];
  /** See SupervisorOptions. */
  readonly resetPool: (deadlineMs: number) => Promise<boolean>;
  readonly restartLimits?: RestartLimits;
}): SupervisedActors {
  const { plan, ends, native, log, audience, resetPool, restartLimits } = parts;
  const counters = new CounterBlock(plan.counters, ACTOR_SUPERVISOR);
  const trace = openThreadTrace(plan, ACTOR_SUPERVISOR, 1, native);
  const drains: (() => void)[] = [];
  const tellOthers = (message: ActorRestarted | ActorGone): void => {
    for (const other of audience())
      if (other !== message.actor && !ends.gone(other)) ends.outboxes.send(other, message);
    ends.outboxes.flush();
  };
  const supervisor = new Supervisor({
    log,
    nowMs: ends.nowMs,
    onDeath: (actor, epoch) => {
      ends.outboxes.producerDied(actor);
      trace.record("actorDied", NONE, NONE, actor, epoch);
      counters.add(COUNTERS.actorRestarts + actor, 1);
    },
    onRestarted: (actor, epoch) => {
      trace.record("actorStarted", NONE, NONE, actor, epoch);
      tellOthers({ kind: "actorRestarted", actor, epoch });
    },
    onGivenUp: (actor, epoch) => {
      // Pairs with the loads of `ThreadEnds.gone`.
      Atomics.or(new Int32Array(plan.control), CONTROL_GONE_WORD, 1 << actor);
      const channel = plan.channels[actor];
      const tell = (): void => tellOthers({ kind: "actorGone", actor });
      if (channel === undefined) tell();
      else drains.push(drainChannel(channel, native, epoch + 1, tell));
    },
    resetPool,
    ...(restartLimits === undefined ? {} : { restartLimits }),
  });
  return {
    supervisor,
    trace,
    endDrains: () => {
      for (const end of drains) end();
    },
  };
}
