import type { EngineStatus } from "../../native/binding.ts";
import type { ThreadEnds } from "../hosts/thread-ends.ts";
import { ACTOR_COUNT, ACTOR_MODEL, ACTOR_NAMES } from "../messages.ts";
import type { RuntimePlan } from "../plan.ts";
import type { ActorInspection } from "../step.ts";
import type { Supervisor } from "../supervision/supervisor.ts";
import { dumpBatches, dumpJobs, dumpRequests, type Listed } from "./table-dump.ts";

export interface ActorDump {
  readonly actor: string;
  /**
   * Whose thread it runs on: its own, which may be down; the caller's (the front end, the supervisor and the scheduler side of an
   * embedded loop), for as long as the runtime runs; or none, when this runtime has no such actor.
   */
  readonly thread: "own" | "caller" | "none";
  readonly running: boolean;
  readonly epoch: number;
  /** Messages that wait for the actor. `full`: sends that found no room, since the start. */
  readonly mailbox: {
    readonly messages: number;
    readonly capacity: number;
    readonly full: number;
    readonly holes: number;
  };
  readonly batchesInFlight: Listed | null;
  /** What the actor itself said, or why it said nothing; null for those without control calls. */
  readonly inspection: ActorInspection | { readonly unanswered: string } | null;
}

/** A readable state of the whole runtime, JSON-able. */
export interface StateDump {
  /** The runtime's time, milliseconds since its start. */
  readonly timeMs: number;
  readonly requests: ReturnType<typeof dumpRequests>;
  readonly jobs: Listed;
  readonly engine: EngineStatus;
  readonly actors: readonly ActorDump[];
}

/**
 * Asks all actors at the same time what they have in hand and adds what the shared tables show. Answers within the control
 * calls' time limit, whatever is stuck: an actor that does not answer is named as such. `runs`: the runtime is not being stopped.
 */
export async function dumpState(
  plan: RuntimePlan,
  ends: ThreadEnds,
  supervisor: Supervisor,
  engine: EngineStatus,
  runs: boolean,
): Promise<StateDump> {
  const dumpActor = async (actor: number): Promise<ActorDump> => {
    const mailbox = ends.mailboxes[actor]!;
    const channel = plan.channels[actor];
    const thread = supervisor.has(actor) ? "own" : actor === ACTOR_MODEL ? "none" : "caller";
    return {
      actor: ACTOR_NAMES[actor]!,
      thread,
      running: thread === "own" ? supervisor.running(actor) : thread === "caller" && runs,
      epoch: supervisor.epoch(actor),
      mailbox: {
        messages: mailbox.size(),
        capacity: mailbox.capacity,
        full: mailbox.refusals(),
        holes: mailbox.holes(),
      },
      batchesInFlight: channel === undefined ? null : dumpBatches(channel),
      inspection: await inspect(supervisor, actor),
    };
  };
  // Also those without a thread of their own (front end, embedded scheduler side): they have a mailbox.
  const actors = await Promise.all(
    Array.from({ length: ACTOR_COUNT }, (_, actor) => dumpActor(actor)),
  );
  const timeMs = ends.nowMs();
  return {
    timeMs: Math.round(timeMs),
    requests: dumpRequests(ends.tables),
    jobs: dumpJobs(ends.tables, timeMs),
    engine,
    actors,
  };
}

async function inspect(supervisor: Supervisor, actor: number): Promise<ActorDump["inspection"]> {
  const control = supervisor.control(actor);
  if (control === undefined) return null;
  try {
    return await control.inspect();
  } catch (error) {
    return { unanswered: error instanceof Error ? error.message : String(error) };
  }
}
