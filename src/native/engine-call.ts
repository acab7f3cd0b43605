/** Calls on single keys and on the pool as a whole, as the addon takes and answers them. */

export interface RemovalManner {
  readonly force: boolean;
  /** Keys of values' checksums stay: they must not go before the values, which would be used unchecked. */
  readonly keepChecksums: boolean;
}

export type EngineCallRequest =
  | { readonly operation: "getValue"; readonly key: string }
  /** If the key is absent. 1 byte to 1 MiB, copied. */
  | { readonly operation: "putValue"; readonly key: string; readonly value: Uint8Array }
  /** Removals with `force` take keys that a reader has leased too, where the engine knows leases. */
  | { readonly operation: "removeKey"; readonly key: string; readonly force: boolean }
  | ({ readonly operation: "removePrefix"; readonly prefix: string } & RemovalManner)
  /** The keys that `hasCachePrefix` names; never by force. */
  | {
      readonly operation: "removeCachePrefix";
      readonly prefix: string;
      readonly keepChecksums: boolean;
    }
  | ({ readonly operation: "removeAll" } & RemovalManner)
  | { readonly operation: "keys"; readonly prefix: string; readonly limit: number }
  | { readonly operation: "health" };

export interface EngineCallReply {
  /** OK, or an EngineCode below 0. */
  readonly status: number;
  /** putValue: 1 when this call stored it; removals: how many keys. */
  readonly count: number;
  /** Removals: matching keys that stay because somebody uses them; -1 from an engine that does not tell. */
  readonly kept: number;
  /** getValue. */
  readonly value: Uint8Array;
  /** keys. */
  readonly keys: readonly string[];
  /** What the engine said about a failure, for a person. */
  readonly text: string;
}
