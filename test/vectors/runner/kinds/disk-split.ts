/** Loads cut into batches that fit the staging buffer of a disk tier. */
import { splitForStaging, stagingBudget, stagingBytes } from "../../../../src/store/disk-split.ts";
import { Cases } from "../cases.ts";
import type { VectorKind } from "../cases.ts";

interface DiskSplitFile {
  readonly usable_ratio: number;
  readonly cases: readonly {
    readonly sizes: readonly (readonly number[])[];
    readonly raw_budget: number;
    readonly usable_budget: number;
    readonly estimates: readonly number[];
    readonly batches: readonly (readonly string[])[];
    readonly oversize_key: string | null;
  }[];
}

export const diskSplits: VectorKind = {
  name: "disk_split",
  run(contents) {
    const { cases, usable_ratio } = contents as DiskSplitFile;
    const report = new Cases();
    cases.forEach((one, index) =>
      report.run(`${index} budget ${one.raw_budget}`, (check) => {
        const bytes = one.sizes.map((sizes) => sizes.reduce((all, size) => all + size, 0));
        const budget = stagingBudget(one.raw_budget, usable_ratio);
        check.equal("usable", budget.usableBytes, one.usable_budget);
        check.equal("estimates", bytes.map(stagingBytes), one.estimates);
        const split = splitForStaging(bytes, budget);
        const oversize = split.kind === "oversize" ? `k${split.key}` : null;
        check.equal("oversize", oversize, one.oversize_key);
        const ends = split.kind === "batches" ? split.ends : [];
        const batches = ends.map((end, batch) => {
          const from = ends[batch - 1] ?? 0;
          return Array.from({ length: end - from }, (_, key) => `k${from + key}`);
        });
        check.equal("batches", batches, one.batches);
      }),
    );
    return report;
  },
};
