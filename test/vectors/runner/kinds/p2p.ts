/** The direct connector's messages, sender plans, regions and runs of blocks. */
import { contiguousRunEnds } from "../../../../src/connector/direct/contiguous-runs.ts";
import { planSender } from "../../../../src/connector/direct/sender-plan.ts";
import {
  decodeTransferReply,
  decodeTransferRequest,
  encodeTransferReply,
  encodeTransferRequest,
} from "../../../../src/connector/direct/transfer-messages.ts";
import { Cases } from "../cases.ts";
import type { VectorKind } from "../cases.ts";
import { regionCases } from "./p2p-regions.ts";
import type { RegionFile } from "./p2p-regions.ts";

/** Integers of 2^53 and more are text. */
type FileInteger = number | string;

interface RequestValue {
  readonly remote_hostname: string;
  readonly remote_port: number;
  readonly remote_tp_size: number;
  readonly remote_tp_rank: number;
  readonly req_blocks: Readonly<Record<string, readonly [string, readonly (readonly number[])[]]>>;
  readonly kv_caches_base_addr: readonly FileInteger[];
  readonly block_lens: readonly FileInteger[];
  readonly kv_block_lens: readonly FileInteger[];
  readonly registered_layer_names?: readonly string[];
  readonly registered_layer_indices?: readonly number[];
  readonly registered_group_indices?: readonly number[];
  readonly registered_shared_group_ids?: readonly (readonly number[])[];
  readonly registered_row_offsets?: readonly FileInteger[];
  readonly remote_pp_size?: number;
  readonly layout_id?: FileInteger;
}
interface ReplyValue {
  readonly status: number;
  readonly ok_reqs?: readonly string[];
  readonly err_reqs?: readonly string[];
  readonly err_msg?: string;
  readonly layout_id?: FileInteger;
}
interface P2pFile {
  readonly xfer_metadata: readonly { readonly value: RequestValue; readonly msgpack: string }[];
  readonly xfer_response: readonly { readonly value: ReplyValue; readonly msgpack: string }[];
  readonly sender_plan: readonly {
    readonly local_tp_rank: number;
    readonly local_tp_size: number;
    readonly remote_tp_rank: number;
    readonly remote_tp_size: number;
    readonly local_kv_block_len: number;
    readonly remote_kv_block_len: number;
    readonly producer_cache_replicated: boolean;
    readonly total_num_kv_heads: number | null;
    readonly plan: readonly [boolean, number, number, number];
  }[];
  readonly regions: RegionFile;
  readonly contiguous_runs: readonly {
    readonly src: readonly number[];
    readonly dst: readonly number[];
    readonly src_runs: readonly (readonly number[])[];
    readonly dst_runs: readonly (readonly number[])[];
  }[];
}

export const p2p: VectorKind = {
  name: "p2p",
  run(contents) {
    const file = contents as P2pFile;
    const report = new Cases();
    messageCases(file, report);
    file.sender_plan.forEach((one, index) =>
      report.run(`sender plan ${index}`, (check) => {
        const plan = planSender({
          localTpRank: one.local_tp_rank,
          localTpSize: one.local_tp_size,
          remoteTpRank: one.remote_tp_rank,
          remoteTpSize: one.remote_tp_size,
          localBytes: one.local_kv_block_len,
          remoteBytes: one.remote_kv_block_len,
          localReplicated: one.producer_cache_replicated,
          kvHeads: one.total_num_kv_heads,
        });
        const ours = plan && [plan.sends, plan.localOffset, plan.remoteOffset, plan.bytes];
        check.equal("plan", ours, one.plan);
      }),
    );
    regionCases(file.regions, report);
    file.contiguous_runs.forEach((one, index) =>
      report.run(`runs ${index}`, (check) => {
        const ends = contiguousRunEnds(one.src, one.dst);
        const runs = (blocks: readonly number[]): number[][] =>
          ends.map((end, run) => blocks.slice(ends[run - 1] ?? 0, end));
        check.equal("source", runs(one.src), one.src_runs);
        check.equal("destination", runs(one.dst), one.dst_runs);
      }),
    );
    return report;
  },
};

function messageCases(file: P2pFile, report: Cases): void {
  file.xfer_metadata.forEach(({ value, msgpack }, index) =>
    report.run(`request ${index}`, (check) => {
      const request = {
        hostname: value.remote_hostname,
        port: value.remote_port,
        tpSize: value.remote_tp_size,
        tpRank: value.remote_tp_rank,
        requests: Object.entries(value.req_blocks).map(([requestId, [transferId, blockIds]]) => ({
          requestId,
          transferId,
          blockIds,
        })),
        baseAddresses: value.kv_caches_base_addr.map(integer),
        blockBytes: value.block_lens.map(integer),
        copyBytes: value.kv_block_lens.map(integer),
        layerNames: value.registered_layer_names ?? [],
        layerIndices: value.registered_layer_indices ?? [],
        groups: value.registered_group_indices ?? [],
        sharedGroups: value.registered_shared_group_ids ?? [],
        rowOffsets: (value.registered_row_offsets ?? []).map(integer),
        ppSize: value.remote_pp_size ?? 1,
        layoutId: integer(value.layout_id ?? 0),
      };
      check.equal("bytes", hex(encodeTransferRequest(request)), msgpack);
      check.equal("read", textOf(decodeTransferRequest(bytesOf(msgpack))), textOf(request));
    }),
  );
  file.xfer_response.forEach(({ value, msgpack }, index) =>
    report.run(`reply ${index}`, (check) => {
      const reply = {
        status: value.status,
        doneRequests: value.ok_reqs ?? null,
        failedRequests: value.err_reqs ?? null,
        message: value.err_msg ?? null,
        layoutId: integer(value.layout_id ?? 0),
      };
      check.equal("bytes", hex(encodeTransferReply(reply)), msgpack);
      check.equal("read", textOf(decodeTransferReply(bytesOf(msgpack))), textOf(reply));
    }),
  );
}

function integer(value: FileInteger): number | bigint {
  return typeof value === "string" ? BigInt(value) : value;
}

/** As text, because differences are printed and JSON has no bigint. */
function textOf(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === "bigint" ? `${inner}n` : inner,
  );
}

function bytesOf(text: string): Uint8Array {
  return Uint8Array.from(Buffer.from(text, "hex"));
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}
