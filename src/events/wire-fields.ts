/**
 * The fields of each event on the wire, in vLLM's order: the order of the positional form, and of the keys of the map form. A field
 * with `optional` is left out of a map when it is null.
 */
import type { KvEvent } from "./kv-events.ts";

/** How a value is checked when it is read. */
export type WireKind =
  | "hash"
  | "hashes"
  | "integer"
  | "tokens"
  | "tokenLists"
  | "text"
  | "keyLists";

export interface WireField {
  /** Name in this project and on the wire. */
  readonly name: string;
  readonly wire: string;
  readonly kind: WireKind;
  readonly nullable: boolean;
  readonly optional: boolean;
}

const required = (name: string, wire: string, kind: WireKind): WireField => ({
  name,
  wire,
  kind,
  nullable: false,
  optional: false,
});
const nullable = (name: string, wire: string, kind: WireKind): WireField => ({
  name,
  wire,
  kind,
  nullable: true,
  optional: false,
});
const optional = (name: string, wire: string, kind: WireKind): WireField => ({
  name,
  wire,
  kind,
  nullable: true,
  optional: true,
});

export const EVENT_FIELDS: { readonly [type in KvEvent["type"]]: readonly WireField[] } = {
  BlockStored: [
    required("blockHashes", "block_hashes", "hashes"),
    nullable("parentBlockHash", "parent_block_hash", "hash"),
    required("tokenIds", "token_ids", "tokens"),
    required("blockSize", "block_size", "integer"),
    nullable("loraId", "lora_id", "integer"),
    nullable("medium", "medium", "text"),
    nullable("loraName", "lora_name", "text"),
    optional("extraKeys", "extra_keys", "keyLists"),
    optional("groupIndex", "group_idx", "integer"),
    optional("kvCacheSpecKind", "kv_cache_spec_kind", "text"),
    optional("kvCacheSpecSlidingWindow", "kv_cache_spec_sliding_window", "integer"),
    optional("locality", "locality", "text"),
    optional("ownership", "ownership", "text"),
    optional("sessionId", "session_id", "text"),
    optional("lookaheadTokenIds", "lookahead_token_ids", "tokenLists"),
  ],
  BlockRemoved: [
    required("blockHashes", "block_hashes", "hashes"),
    nullable("medium", "medium", "text"),
    optional("groupIndex", "group_idx", "integer"),
    optional("locality", "locality", "text"),
    optional("ownership", "ownership", "text"),
  ],
  AllBlocksCleared: [],
};

export function isEventType(name: unknown): name is KvEvent["type"] {
  return typeof name === "string" && Object.hasOwn(EVENT_FIELDS, name);
}

/** Fields of the batch, in the order of its array. */
export const BATCH_FIELDS = ["ts", "events", "data_parallel_rank"] as const;
