/** Where a block's bytes lie: the views of the last rank, and the scatter-gather list of each value. */
import { selectStoreShape } from "../../../../src/keys/store-shape.ts";
import { blockSegments, kvTensors } from "../../../../src/keys/kv-tensors.ts";
import type { StorageSegment } from "../../../../src/keys/segments.ts";
import { namespaceOf, topologyOf } from "../../vectors.ts";
import type { VectorConfig } from "../../vectors.ts";
import { Cases } from "../cases.ts";
import type { VectorKind } from "../cases.ts";

interface SegmentCase {
  readonly config: VectorConfig;
  readonly tensors: readonly {
    readonly layer: string;
    readonly shape: readonly number[];
    readonly stride_bytes: readonly number[];
    readonly storage: number;
    readonly storage_bytes: number;
    readonly offset: number;
  }[];
  readonly groups: readonly {
    readonly shards: readonly number[];
    readonly values: readonly {
      readonly shard: number;
      readonly block_ids: readonly number[];
      readonly addrs: readonly (readonly (readonly [number, number])[])[];
      readonly sizes: readonly (readonly number[])[];
    }[];
  }[];
}

export const segments: VectorKind = {
  name: "segments",
  run(contents) {
    const report = new Cases();
    (contents as { cases: SegmentCase[] }).cases.forEach((one, index) =>
      report.run(`${index} ${JSON.stringify(one.config)}`, (check) => {
        const { tp_size = 1, pp_size = 1, pcp_size = 1, dcp_size = 1 } = one.config;
        const last = { tp: tp_size - 1, pp: pp_size - 1, pcp: pcp_size - 1, dcp: dcp_size - 1 };
        const topology = topologyOf(one.config, last);
        const views = kvTensors(topology).flatMap((layers, group) =>
          layers.map((tensor, layer) => ({
            layer: `model.layers.${layer}.attn${group}`,
            shape: tensor.shape,
            stride_bytes: tensor.strideBytes,
            storage: tensor.storage,
            storage_bytes: tensor.storageBytes,
            offset: tensor.offset,
          })),
        );
        check.equal("tensors", views, one.tensors);
        const shape = selectStoreShape(topology, namespaceOf(one.config).storeTp ?? null);
        const ours = blockSegments(topology, shape.tpSize);
        one.groups.forEach((group, number) => {
          const values = ours[number] ?? [];
          const first = shape.tpSize === null ? 0 : last.tp * values.length;
          const shards = values.map((_, shard) => first + shard);
          check.equal(`shards of group ${number}`, shards, group.shards);
          group.values.forEach(({ shard, block_ids, addrs, sizes }) => {
            const lists = block_ids.map((block) => listOf(values[shard - first] ?? [], block));
            const label = `of group ${number} shard ${shard}`;
            check.equal(
              `addresses ${label}`,
              lists.map((list) => list.addresses),
              addrs,
            );
            check.equal(
              `sizes ${label}`,
              lists.map((list) => list.sizes),
              sizes,
            );
          });
        });
      }),
    );
    return report;
  },
};

function listOf(
  value: readonly StorageSegment[],
  block: number,
): { addresses: [number, number][]; sizes: number[] } {
  return {
    addresses: value.map((each) => [each.storage, each.offset + block * each.strideBytes]),
    sizes: value.map((each) => each.bytes),
  };
}
