import type { EngineChannel } from "../../store/engine.ts";
import type { StagingSettings } from "../../config/connector-config.ts";
import { stagingBudget } from "../../store/disk-split.ts";
import type { StagingBudget } from "../../store/disk-split.ts";

/** How loads of one kind of model are worked off. */
export interface LoadWork {
  /** Starts the job. False: it can never succeed, because a value is larger than what a disk tier can stage. */
  begin(item: number): boolean;
  /** Keys of the job. */
  keys(item: number): number;
  /** Tokens of the blocks that the job loads. */
  tokens(item: number): number;
  hasMore(item: number): boolean;
  isDone(item: number): boolean;
  /** Fills the batch and submits it; how many keys, 0 for none. */
  submitNext(item: number, batch: number, engine: EngineChannel): number;
  /** Takes the results of a batch. */
  completed(item: number, batch: number, engine: EngineChannel): void;
  giveUp(item: number, outcome: number): void;
  /** The first chunk that is not to be used, or NONE. */
  badChunk(item: number): number;
}

/** What loads of a pool with a disk tier keep to. */
export interface LoadStaging {
  readonly budget: StagingBudget;
  /** Gets in flight at a time: each may fill the owner's staging buffer. */
  readonly readsMax: number;
}

export function loadStaging({ bufferBytes, usableRatio, readsMax }: StagingSettings): LoadStaging {
  return { budget: stagingBudget(bufferBytes, usableRatio), readsMax };
}
