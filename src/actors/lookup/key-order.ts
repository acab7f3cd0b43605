import type { Tables } from "../../blocks/tables.ts";
import type { HitRules } from "../../keys/coordinator/hit-rules.ts";
import type { WorkerKeySpace } from "../../store/key-spaces.ts";

export interface KeyOrderOptions {
  readonly tables: Tables;
  /** What a hit needs (`hitRulesOf`). */
  readonly rules: HitRules;
  /** Of any worker side of this process: their lookup prefixes cover all ranks. */
  readonly keySpace: Pick<WorkerKeySpace, "keySpaceId" | "lookupPrefixesOfGroup">;
}

/** How far a lookup reaches, and what its answers come to. Record numbers as in LookupRecords. */
export interface HitOrder {
  /** Hash blocks that must be in the row first, for a question about `tokens` tokens of which `hashes` hash blocks can be had. */
  hashBlocks(tokens: number, hashes: number): number;
  /** Begins to ask: the number of keys. `hashes` as given by `hashBlocks`. */
  begin(record: number, tokens: number, hashes: number): number;
  /** Every key that decides was told of: leading tokens that can be loaded, 0 for a miss. */
  hitTokens(record: number): number;
  /** Per group, `LookupAnswer.tailTokens` of the hit; empty when it follows from the hit. */
  tailTokens(record: number): readonly number[];
  /** The record is closed. */
  end(record: number): void;
}

/** In which order the engine is asked for a lookup's keys, and what follows from which of them exist. */
export interface KeyOrder extends HitOrder {
  /** Writes keys [from, to) of the record into a batch. `hashPage`: first page of the request's hash row. */
  fill(entries: Int32Array, record: number, hashPage: number, from: number, to: number): void;
  /** The engine has told of key `key`. True: nothing behind it is worth asking for. */
  told(record: number, key: number, exists: boolean): boolean;
}
