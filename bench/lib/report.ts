import { writeFileSync } from "node:fs";
import { arch, cpus, release } from "node:os";

/**
 * What a benchmark prints: lines `ratio NAME VALUE (reach: BOUND)` for people, and all of it as JSON with `--json FILE`.
 * Ratios compare two things of one run; absolute figures are for information. Nothing here decides a test.
 */
export class Report {
  readonly #name: string;
  readonly #ratios: { name: string; value: number; reach: string; reached: boolean }[] = [];
  readonly #figures: { name: string; value: number; unit: string }[] = [];

  constructor(name: string) {
    this.#name = name;
    console.log(
      `${name}: Node ${process.versions.node}, ${cpus()[0]?.model ?? "?"} x ${cpus().length}, ${arch()} ${release()}`,
    );
  }

  figure(name: string, value: number, unit: string): void {
    this.#figures.push({ name, value, unit });
    console.log(`  ${name}: ${format(value)} ${unit}`);
  }

  /** `bound` is reached when value <= bound (direction "most") or value >= bound ("least"). */
  ratio(name: string, value: number, direction: "most" | "least", bound: number): void {
    const reach = `${direction === "most" ? "<=" : ">="} ${format(bound)}`;
    const reached = direction === "most" ? value <= bound : value >= bound;
    this.#ratios.push({ name, value, reach, reached });
    console.log(
      `ratio ${name} ${format(value)} (reach: ${reach})${reached ? "" : "  NOT REACHED"}`,
    );
  }

  /** Writes the JSON file when `--json FILE` was given. */
  close(): void {
    const at = process.argv.indexOf("--json");
    const file = at < 0 ? undefined : process.argv[at + 1];
    if (file === undefined) return;
    const machine = { node: process.versions.node, cpu: cpus()[0]?.model, cores: cpus().length };
    writeFileSync(
      file,
      `${JSON.stringify({ suite: this.#name, machine, ratios: this.#ratios, figures: this.#figures }, null, 2)}\n`,
    );
  }
}

function format(value: number): string {
  return Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(3);
}

export function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

/** Nearest-rank percentile; `share` from 0 to 1. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}
