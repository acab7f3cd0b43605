/**
 * The two messages of vLLM's direct connector (one ZeroMQ frame each): a decoder asks a prefiller to write blocks into its memory,
 * the prefiller answers. Both are msgpack maps; fields that equal their defaults are left out, unknown ones are passed over.
 */
import { decode, encode } from "@msgpack/msgpack";
import { msgpackProblem } from "../../events/msgpack-shape.ts";
import { messageFields, messageInteger } from "./message-fields.ts";
import type { MessageFields, WireInteger } from "./message-fields.ts";

/** What the decoder asks for. "Remote" in vLLM's field names is the decoder. */
export interface TransferRequest {
  readonly hostname: string;
  /** Port of the decoder's transfer engine. */
  readonly port: number;
  readonly tpSize: number;
  readonly tpRank: number;
  readonly requests: readonly TransferRequestBlocks[];
  /** Per registered region: its address, the bytes from block to block, and the bytes of a block that are to be copied. */
  readonly baseAddresses: readonly WireInteger[];
  readonly blockBytes: readonly WireInteger[];
  readonly copyBytes: readonly WireInteger[];
  /** Parallel to the regions, or empty from older peers. */
  readonly layerNames: readonly string[];
  readonly layerIndices: readonly number[];
  /** The KV-cache group of each region, -1 when several share it (`sharedGroups`). */
  readonly groups: readonly number[];
  readonly sharedGroups: readonly (readonly number[])[];
  /** Where a region lies in the row of its block, -1 when not told. */
  readonly rowOffsets: readonly WireInteger[];
  readonly ppSize: number;
  /** Names the regions above, so that later requests may leave them out; 0: they are always sent. */
  readonly layoutId: WireInteger;
}

export interface TransferRequestBlocks {
  /** The decoder's id of the request. */
  readonly requestId: string;
  /** The id that both sides were given. */
  readonly transferId: string;
  /** The decoder's blocks, one list a KV-cache group. */
  readonly blockIds: readonly (readonly number[])[];
}

export const TRANSFER_FINISHED = 0;
/** More answers to the same request follow. */
export const TRANSFER_CONTINUES = 1;
export const TRANSFER_FAILED = 2;
/** The prefiller does not hold the regions of this layout id: they are to be sent again. */
export const TRANSFER_LAYOUT_UNKNOWN = 3;

export interface TransferReply {
  /** One of the numbers above. */
  readonly status: number;
  readonly doneRequests: readonly string[] | null;
  readonly failedRequests: readonly string[] | null;
  readonly message: string | null;
  /** The asked layout id once the prefiller holds its regions. */
  readonly layoutId: WireInteger;
}

export function encodeTransferRequest(request: TransferRequest): Uint8Array {
  const blocks: Record<string, unknown> = {};
  for (const { requestId, transferId, blockIds } of request.requests)
    blocks[requestId] = [transferId, blockIds];
  return encodeMap({
    remote_hostname: request.hostname,
    remote_port: request.port,
    remote_tp_size: request.tpSize,
    remote_tp_rank: request.tpRank,
    req_blocks: blocks,
    kv_caches_base_addr: request.baseAddresses.map(messageInteger),
    block_lens: request.blockBytes.map(messageInteger),
    kv_block_lens: request.copyBytes.map(messageInteger),
    registered_layer_names: unlessEmpty(request.layerNames),
    registered_layer_indices: unlessEmpty(request.layerIndices),
    registered_group_indices: unlessEmpty(request.groups),
    registered_shared_group_ids: unlessEmpty(request.sharedGroups),
    registered_row_offsets: unlessEmpty(request.rowOffsets.map(messageInteger)),
    remote_pp_size: unless(request.ppSize, 1),
    layout_id: unless(messageInteger(request.layoutId), 0),
  });
}

/** Throws INVALID_VALUE or INVALID_TYPE with the field's name for what is no such message. */
export function decodeTransferRequest(bytes: Uint8Array): TransferRequest {
  const fields = decodeMap(bytes, "transfer request");
  return {
    hostname: fields.text("remote_hostname"),
    port: fields.count("remote_port"),
    tpSize: fields.count("remote_tp_size"),
    tpRank: fields.count("remote_tp_rank"),
    requests: fields.entries("req_blocks").map(([requestId, pair]) => ({
      requestId,
      transferId: pair.text(0),
      blockIds: pair.lists(1),
    })),
    baseAddresses: fields.integers("kv_caches_base_addr"),
    blockBytes: fields.integers("block_lens"),
    copyBytes: fields.integers("kv_block_lens"),
    layerNames: fields.texts("registered_layer_names", []),
    layerIndices: fields.numbers("registered_layer_indices", []),
    groups: fields.numbers("registered_group_indices", []),
    sharedGroups: fields.lists("registered_shared_group_ids", []),
    rowOffsets: fields.integers("registered_row_offsets", []),
    ppSize: fields.count("remote_pp_size", 1),
    layoutId: fields.integer("layout_id", 0),
  };
}

export function encodeTransferReply(reply: TransferReply): Uint8Array {
  return encodeMap({
    status: reply.status,
    ok_reqs: reply.doneRequests ?? undefined,
    err_reqs: reply.failedRequests ?? undefined,
    err_msg: reply.message ?? undefined,
    layout_id: unless(messageInteger(reply.layoutId), 0),
  });
}

/** Throws INVALID_VALUE or INVALID_TYPE with the field's name for what is no such message. */
export function decodeTransferReply(bytes: Uint8Array): TransferReply {
  const fields = decodeMap(bytes, "transfer reply");
  return {
    status: fields.count("status"),
    doneRequests: fields.texts("ok_reqs", null),
    failedRequests: fields.texts("err_reqs", null),
    message: fields.text("err_msg", null),
    layoutId: fields.integer("layout_id", 0),
  };
}

function encodeMap(fields: Readonly<Record<string, unknown>>): Uint8Array {
  return encode(fields, { ignoreUndefined: true, useBigInt64: true });
}

function decodeMap(bytes: Uint8Array, what: string): MessageFields {
  let decoded: unknown;
  try {
    if (msgpackProblem(bytes) === null) decoded = decode(bytes, { useBigInt64: true });
  } catch {
    // Whatever the library objects to: these bytes are no message.
    decoded = undefined;
  }
  return messageFields(decoded, what);
}

function unlessEmpty<Item>(items: readonly Item[]): readonly Item[] | undefined {
  return items.length === 0 ? undefined : items;
}

function unless<Value>(value: Value, left: Value): Value | undefined {
  return value === left ? undefined : value;
}
