/** `npm run vectors -- DIR`: cases per file, then "N passed, N failed". Ends with 1 unless every case of every file passed. */
import { runFolder } from "./run-folder.ts";

const PROBLEMS_MAX = 10;

const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error("name the folder with the vector files");
const results = runFolder(folder);
let passed = 0;
let failed = 0;
for (const result of results) {
  passed += result.passed;
  failed += result.failed;
  const mended = result.mended === 0 ? "" : `, ${result.mended} of them mended`;
  print(`${result.file}: ${result.passed} passed${mended}, ${result.failed} failed`);
  for (const note of result.notes) print(`  mended ${note}`);
  for (const problem of result.problems.slice(0, PROBLEMS_MAX)) print(`  FAILED ${problem}`);
  const others = result.problems.length - PROBLEMS_MAX;
  if (others > 0) print(`  and ${others} more`);
}
if (results.length === 0) print(`${folder} holds no vector file`);
print(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 && passed > 0 ? 0 : 1;

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
