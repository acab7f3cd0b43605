import type { Tensor } from "onnxruntime-node";
import type { StepBatch } from "./step-batch.ts";
import type { StepGroups } from "./step-groups.ts";

type TensorConstructor = typeof import("onnxruntime-node").Tensor;

/** Builds the graph's inputs of one run in buffers that are reused from run to run. */
export class StepInputs {
  private readonly tensorConstructor: TensorConstructor;
  private readonly tokensPerMemberMin: number;
  private tokenIds = new Int32Array(1024);
  private positions = new Int32Array(1024);
  private blockTable = new Int32Array(1024);
  private lastIndex = new Int32Array(64);

  /**
   * `tokensPerMemberMin` 2 pads a single token to two: where query and key heads are as many, a single token would be a
   * product of one row, which the runtime computes by another routine with other last bits.
   */
  constructor(tensorConstructor: TensorConstructor, tokensPerMemberMin: number) {
    this.tensorConstructor = tensorConstructor;
    this.tokensPerMemberMin = tokensPerMemberMin;
  }

  /** Sets the inputs of the members [first, end) of the plan in `feeds`; returns the padded tokens of each member. */
  fill(
    feeds: Record<string, Tensor>,
    batch: StepBatch,
    groups: StepGroups,
    first: number,
    end: number,
  ): number {
    const members = end - first;
    let tokens = this.tokensPerMemberMin;
    let blocks = 1;
    for (let at = first; at < end; at++) {
      const sequence = groups.order[at]!;
      tokens = Math.max(tokens, batch.tokenCounts[sequence]!);
      blocks = Math.max(blocks, groups.blocksOf(batch, sequence));
    }
    this.reserve(members, tokens, blocks);
    for (let member = 0; member < members; member++) {
      this.fillMember(batch, groups, groups.order[first + member]!, member, tokens, blocks);
    }
    const tensor = (data: Int32Array, columns: number): Tensor =>
      new this.tensorConstructor("int32", data.subarray(0, members * columns), [members, columns]);
    feeds.input_ids = tensor(this.tokenIds, tokens);
    feeds.position_ids = tensor(this.positions, tokens);
    feeds.block_table = tensor(this.blockTable, blocks);
    feeds.last_index = tensor(this.lastIndex, 1);
    return tokens;
  }

  private fillMember(
    batch: StepBatch,
    groups: StepGroups,
    sequence: number,
    member: number,
    tokens: number,
    blocks: number,
  ): void {
    const count = batch.tokenCounts[sequence]!;
    const start = batch.startPositions[sequence]!;
    const source = groups.tokenOffsets[sequence]!;
    for (let index = 0; index < tokens; index++) {
      const used = Math.min(index, count - 1);
      this.tokenIds[member * tokens + index] = batch.tokenIds[source + used]!;
      this.positions[member * tokens + index] = start + used;
    }
    // The table is padded with a block of the sequence's own: what another request's block holds must never matter.
    const table = sequence * batch.blockTableStride;
    const own = groups.blocksOf(batch, sequence);
    for (let index = 0; index < blocks; index++) {
      this.blockTable[member * blocks + index] =
        batch.blockTable[index < own ? table + index : table]!;
    }
    this.lastIndex[member] = count - 1;
  }

  private reserve(members: number, tokens: number, blocks: number): void {
    if (this.tokenIds.length < members * tokens) {
      this.tokenIds = new Int32Array(members * tokens * 2);
      this.positions = new Int32Array(members * tokens * 2);
    }
    if (this.blockTable.length < members * blocks)
      this.blockTable = new Int32Array(members * blocks * 2);
    if (this.lastIndex.length < members) this.lastIndex = new Int32Array(members * 2);
  }
}
