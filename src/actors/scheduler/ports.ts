import type { ConnectorMetadata, ConnectorOutput, SchedulerHooks } from "../../connector/hooks.ts";
import type {
  ActorGone,
  ActorRestarted,
  Hashed,
  LoadDone,
  LookupDone,
  SaveDone,
} from "../messages.ts";

/** Messages that concern the connector: it sees them before the scheduler acts on them. */
export type ConnectorMessage =
  | Hashed
  | LookupDone
  | LoadDone
  | SaveDone
  | ActorRestarted
  | ActorGone;

/**
 * The connector as the built-in scheduler drives it: the scheduler side and all worker sides on the scheduler's thread
 * (connector/sides.ts). See connector/hooks.ts for the meaning and the order of the hooks.
 */
export interface ConnectorPort {
  readonly hooks: SchedulerHooks;
  /** After a restart, before the first request: jobs of the dead scheduler keep their blocks until they are reported. */
  adopt(): void;
  /** Hands a message to the side that it is for. False: late, duplicate or unknown. */
  receive(message: ConnectorMessage): boolean;
  /** start_load_kv on every worker side. */
  startLoads(metadata: ConnectorMetadata): void;
  /** wait_for_save on every worker side: starts, never waits. The step that computed the blocks is over. */
  startSaves(metadata: ConnectorMetadata): void;
  /** Makes and starts the saves that ended requests still owe; visits the slots that wait for none any more. */
  settleSaves(visit: (slot: number) => void): void;
  /** get_finished over all worker sides, merged. Valid until the next call. */
  collect(): ConnectorOutput;
}
