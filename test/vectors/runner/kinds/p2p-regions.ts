/** Regions of two peers: aligned, joined, checked. The last two take the result of an aligned case. */
import {
  alignRegions,
  coalesceRegions,
  validateRegionBytes,
} from "../../../../src/connector/direct/transfer-regions.ts";
import type {
  RegionPairs,
  TransferRegion,
} from "../../../../src/connector/direct/transfer-regions.ts";
import type { Cases } from "../cases.ts";

interface FileRegion {
  readonly layer_name: string;
  readonly layer_index: number;
  readonly base_addr: number;
  readonly block_len: number;
  readonly kv_block_len: number;
  readonly group_index: number;
  readonly shared_group_ids: readonly number[];
  readonly row_offset: number;
}
export interface RegionFile {
  readonly align: readonly {
    readonly local: readonly FileRegion[];
    readonly remote: readonly FileRegion[];
    readonly allow_partial_layers: boolean;
    readonly aligned_local: readonly FileRegion[];
    readonly aligned_remote: readonly FileRegion[];
    readonly error: string | null;
  }[];
  readonly coalesce: readonly {
    readonly case: number;
    readonly promote_full_row: boolean;
    readonly local: readonly FileRegion[];
    readonly remote: readonly FileRegion[];
  }[];
  readonly validate: readonly {
    readonly case: number;
    readonly tp: readonly [number, number];
    readonly error: string | null;
  }[];
}

export function regionCases(file: RegionFile, report: Cases): void {
  const aligned = file.align.map(({ local, remote, allow_partial_layers }) =>
    alignRegions(local.map(region), remote.map(region), allow_partial_layers),
  );
  const pairsOf = (index: number): RegionPairs => {
    const pairs = aligned[index];
    // A refused alignment leaves nothing to join or to check.
    return pairs === undefined || pairs.error !== null ? { local: [], remote: [] } : pairs;
  };
  file.align.forEach((one, index) =>
    report.run(`align ${index}`, (check) => {
      const { local, remote } = pairsOf(index);
      check.equal("error", aligned[index]?.error, one.error);
      check.equal("local", local, one.aligned_local.map(region));
      check.equal("remote", remote, one.aligned_remote.map(region));
    }),
  );
  file.coalesce.forEach((one, index) =>
    report.run(`coalesce ${index}`, (check) => {
      const { local, remote } = coalesceRegions(pairsOf(one.case), one.promote_full_row);
      check.equal("local", local, one.local.map(region));
      check.equal("remote", remote, one.remote.map(region));
    }),
  );
  file.validate.forEach((one, index) =>
    report.run(`validate ${index}`, (check) => {
      const [localTpSize, remoteTpSize] = one.tp;
      const pair = { localTpSize, remoteTpSize, localReplicated: false, kvHeads: null };
      check.equal("error", validateRegionBytes(pairsOf(one.case), pair), one.error);
    }),
  );
}

function region(given: FileRegion): TransferRegion {
  return {
    layerName: given.layer_name,
    layerIndex: given.layer_index,
    baseAddress: given.base_addr,
    blockBytes: given.block_len,
    copyBytes: given.kv_block_len,
    group: given.group_index,
    sharedGroups: given.shared_group_ids,
    rowOffset: given.row_offset,
  };
}
