/** Runs every vector file of a folder. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { extname, join } from "node:path";
import type { KindResult, VectorKind } from "./cases.ts";
import { VECTOR_KINDS } from "./vector-kinds.ts";

export interface FileResult extends KindResult {
  readonly file: string;
}

/** Descriptions beside the vectors. Anything else that is no vector file counts as a failure. */
const DESCRIPTIONS = [".md"];

/** One result a file, in the order of their names. A file of no known kind, or without cases, is one failure. */
export function runFolder(folder: string): FileResult[] {
  return readdirSync(folder)
    .filter((file) => !DESCRIPTIONS.includes(extname(file)))
    .sort()
    .map((file) => ({ file, ...runFile(join(folder, file), file) }));
}

/** The kind that a file's name states: the longest that fits, so that `hashes_sha256_cbor` is not taken for `hashes_sha256`. */
export function kindOf(file: string): VectorKind | null {
  if (extname(file) !== ".json") return null;
  const stem = file.slice(0, -".json".length);
  const fits = VECTOR_KINDS.filter(
    ({ name }) =>
      stem.startsWith(name) && (stem === name || "_-.".includes(stem.charAt(name.length))),
  );
  return fits.sort((left, right) => right.name.length - left.name.length)[0] ?? null;
}

function runFile(path: string, file: string): KindResult {
  if (statSync(path).isDirectory()) return failure(`${file} is a folder: give it by itself`);
  const kind = kindOf(file);
  if (kind === null)
    return failure(
      `${file} is of no known kind: ${VECTOR_KINDS.map(({ name }) => name).join(", ")}`,
    );
  try {
    const result = kind.run(JSON.parse(readFileSync(path, "utf8")));
    return result.passed + result.failed === 0 ? failure(`${file} holds no case`) : result;
  } catch (error) {
    return failure(`${file}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function failure(problem: string): KindResult {
  return { passed: 0, failed: 1, mended: 0, ranAsPlans: 0, problems: [problem], notes: [] };
}
