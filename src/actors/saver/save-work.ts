import type { EngineChannel } from "../../store/engine.ts";

/** How saves of one kind of model are worked off. Batches are counted by the saver. */
export interface SaveWork {
  begin(item: number): void;
  /** Keys that the job has in hand when it begins. */
  keys(item: number): number;
  hasMore(item: number): boolean;
  isDone(item: number): boolean;
  /** Fills the batch and submits it; how many keys, 0 for none. */
  submitNext(item: number, batch: number, engine: EngineChannel): number;
  /**
   * Takes the answer to an exists batch. Returns how many keys are being put now out of the same batch slot, 0 when it may be
   * released.
   */
  existsDone(item: number, batch: number, engine: EngineChannel): number;
  /** Takes the results of a put batch, of which `failed` keys were not stored, `refused` of them for want of room. */
  putDone(
    item: number,
    batch: number,
    engine: EngineChannel,
    failed: number,
    refused: number,
  ): void;
  giveUp(item: number, outcome: number): void;
  /** Keys that this rank was to see to, those that it knew to be in the pool already included. */
  wantedKeys(item: number): number;
  /** Of these, the ones that it knew without asking. */
  knownKeys(item: number): number;
  /** Before the report: the job's end is noted for later saves of the request. */
  settle(item: number): void;
  /** The item was reported. Another one whose turn it is now, or NONE. */
  ended(item: number): number;
}
