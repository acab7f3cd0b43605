/** Counting of golden cases: what a kind of vector file reports. */
import { isDeepStrictEqual } from "node:util";

export interface KindResult {
  /** Cases that are equal, the mended ones among them. */
  readonly passed: number;
  readonly failed: number;
  /** Cases whose recorded fault is not copied: they meet the stated rule in its place. */
  readonly mended: number;
  /** Cases that were run a second time, with their jobs as plans. */
  readonly ranAsPlans: number;
  /** One text a failed case. */
  readonly problems: readonly string[];
  /** One text a mended case: the rule that it meets. */
  readonly notes: readonly string[];
}

/** One kind of vector file. `name` is the file's name without `.json`, or its beginning up to a `_`, `-` or `.`. */
export interface VectorKind {
  readonly name: string;
  /** Compares every case of a file's parsed contents. A case that throws has failed. */
  run(contents: unknown): KindResult;
}

export interface CaseCheck {
  /** The case fails unless `ours` equals `wanted`, types and order included. */
  equal(what: string, ours: unknown, wanted: unknown): void;
  /** The recorded value is a fault that is not copied; the case has been shown to meet `rule`. */
  mended(rule: string): void;
  /** The case was run a second time, with its jobs as plans. */
  ranAsPlans(): void;
}

const TEXT_MAX = 400;

export class Cases implements KindResult {
  passed = 0;
  failed = 0;
  mended = 0;
  ranAsPlans = 0;
  readonly problems: string[] = [];
  readonly notes: string[] = [];

  /** Runs one case. It passes when `compare` neither throws nor finds a difference. */
  run(label: string, compare: (check: CaseCheck) => void): void {
    const found: string[] = [];
    const rules: string[] = [];
    const check: CaseCheck = {
      equal: (what, ours, wanted) => {
        if (!isDeepStrictEqual(ours, wanted))
          found.push(`${what}: ours ${textOf(ours)}, wanted ${textOf(wanted)}`);
      },
      mended: (rule) => void rules.push(rule),
      ranAsPlans: () => void this.ranAsPlans++,
    };
    try {
      compare(check);
    } catch (error) {
      found.push(error instanceof Error ? error.message : String(error));
    }
    const [problem] = found;
    if (problem !== undefined) {
      this.failed++;
      const others = found.length === 1 ? "" : ` (and ${found.length - 1} more)`;
      this.problems.push(`${label}: ${problem}${others}`);
      return;
    }
    this.passed++;
    if (rules.length === 0) return;
    this.mended++;
    this.notes.push(`${label}: ${rules.join("; ")}`);
  }
}

function textOf(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > TEXT_MAX ? `${text.slice(0, TEXT_MAX)}…` : text;
}
