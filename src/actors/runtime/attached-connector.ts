import type { Connector } from "../../connector/connector.ts";
import { nearestName } from "../../config/warnings.ts";
import { fail } from "../../errors.ts";
import { checkEvents } from "../../events/check-events.ts";
import { KvEventFeed } from "../../events/event-feed.ts";
import type { KvEvent } from "../../events/kv-events.ts";
import type { KvEventPublisher } from "../../events/publisher.ts";
import { ACTOR_NAMES } from "../messages.ts";
import type { MembershipStatus } from "./identity-check.ts";
import type { Runtime } from "./runtime.ts";
import type { StateDump } from "./state-dump.ts";

/** What happens to the threads behind a connector. `actor`: lookup, loader or saver; `epoch` counts its threads from 1. */
export interface ConnectorEvents {
  /** Requests that waited for the actor go on by computing; a successor starts soon. */
  actorDied: { readonly actor: string; readonly epoch: number; readonly error: Error };
  actorRestarted: { readonly actor: string; readonly epoch: number };
  /** It died too often. Requests compute from here on; to use the pool again, stop and attach anew. */
  actorGivenUp: { readonly actor: string; readonly error: Error };
}

const EVENT_NAMES: readonly string[] = [
  "actorDied",
  "actorRestarted",
  "actorGivenUp",
] satisfies (keyof ConnectorEvents)[];

/** A connector attached to the calling thread, with its actor threads. */
export interface AttachedConnector {
  /** vLLM's hooks, both sides. Belongs to the thread that attached. */
  readonly connector: Connector;
  /**
   * Bytes of all KV blocks, when the runtime owns them in one piece: block b starts at b * (bytes / blockCount), unless a layout
   * with the layer outermost is asked for, and its bytes have the axes in the order of the layout (heads within tokens in vLLM's
   * LBNHC, unless kvCache states another). null with your memory, and for models whose memory is several storages.
   */
  readonly kvMemory: ArrayBuffer | null;
  /**
   * Memory that the runtime owns, as storages: one for all layers of a model with one group, in the layout asked for; for hybrid
   * models one for each layer of the longest group, whose block b is page b of every group. Empty with your memory.
   */
  readonly kvStorages: readonly ArrayBuffer[];
  /**
   * Publishes one batch of KV events: `local` (of your own blocks, medium "GPU") and then what `takeEvents` would give. Call once a
   * step, as vLLM's scheduler does. Never waits. Nothing happens when there are no events, or without publisher zmq in
   * `kvEventsConfig`. Throws INVALID_TYPE, INVALID_VALUE or MISSING for what is no event; none of the batch is published then.
   */
  publishEvents(local?: readonly KvEvent[]): void;
  /** Where the KV events go, with the ports that were chosen; null when none are published. */
  readonly eventEndpoints: {
    readonly endpoint: string;
    readonly replayEndpoint: string | null;
  } | null;
  /** False while an actor that should run does not, and after `stop`. */
  healthy(): boolean;
  /** Whether this member may use the pool, and what keeps it out. Checked each minute, when the event loop turns. */
  membership(): MembershipStatus;
  /** Calls `listener` from now on; events need turns of the event loop. Returns a function that takes it away again.
   * Throws INVALID_VALUE for an event that there is not. */
  on<Name extends keyof ConnectorEvents>(
    event: Name,
    listener: (event: ConnectorEvents[Name]) => void,
  ): () => void;
  /** What everything has in hand, as plain data for a person who looks for what is stuck. Takes at most about a second. */
  dump(): Promise<StateDump>;
  /**
   * Orderly stop within shutdown_timeout_ms; returns how many engine batches could not be waited for. Every later call of a
   * hook throws CLOSED. A user's own KV memory is read and written by nobody once it has resolved.
   */
  stop(): Promise<number>;
}

/** The public face of an embedded runtime: nothing of its insides. */
export function faceOf(
  runtime: Runtime,
  connector: Connector,
  storages: readonly ArrayBuffer[],
  publisher: KvEventPublisher | null,
): AttachedConnector {
  const feed =
    runtime.kvEvents === null || publisher === null
      ? null
      : new KvEventFeed(runtime.kvEvents, publisher);
  return {
    connector,
    kvMemory: storages.length === 1 ? (storages[0] ?? null) : null,
    kvStorages: storages,
    publishEvents: (local) => {
      if (feed === null) return;
      if (local !== undefined) checkEvents(local);
      feed.pass(local);
    },
    eventEndpoints: publisher,
    healthy: () => runtime.healthy(),
    membership: () => runtime.membership.status(),
    on: (event, listener) => listen(runtime, event, listener),
    dump: () => runtime.dump(),
    stop: async () => {
      connector.close();
      const inFlight = await runtime.stop();
      feed?.pass();
      await publisher?.close();
      return inFlight;
    },
  };
}

function listen<Name extends keyof ConnectorEvents>(
  { supervisor }: Runtime,
  event: Name,
  listener: (event: ConnectorEvents[Name]) => void,
): () => void {
  if (!EVENT_NAMES.includes(event)) {
    const nearest = typeof event === "string" ? nearestName(event, EVENT_NAMES) : null;
    const remedy =
      nearest === null ? `Use one of ${EVENT_NAMES.join(", ")}.` : `Did you mean "${nearest}"?`;
    fail("INVALID_VALUE", "event", event, "is no event of a connector", remedy);
  }
  if (typeof listener !== "function")
    fail("INVALID_TYPE", "listener", listener, "must be a function", "Give the function to call.");
  const tell = listener as (event: ConnectorEvents[keyof ConnectorEvents]) => void;
  const name = (actor: number): string => ACTOR_NAMES[actor] ?? "unknown";
  if (event === "actorDied") {
    const died = (actor: number, epoch: number, error: Error): void =>
      tell({ actor: name(actor), epoch, error });
    supervisor.on("died", died);
    return () => void supervisor.off("died", died);
  }
  if (event === "actorRestarted") {
    const restarted = (actor: number, epoch: number): void => tell({ actor: name(actor), epoch });
    supervisor.on("restarted", restarted);
    return () => void supervisor.off("restarted", restarted);
  }
  const givenUp = (actor: number, error: Error): void => tell({ actor: name(actor), error });
  supervisor.on("givenUp", givenUp);
  return () => void supervisor.off("givenUp", givenUp);
}
