#!/usr/bin/env node
// The command's entry loads nothing but this check: with too few open files the loader of the other modules fails with a stack.
import { OPEN_FILES_LOADING, openFilesProblem } from "../config/open-files.ts";

const problem = openFilesProblem(OPEN_FILES_LOADING);
if (problem === null) {
  const { main } = await import("./command-line.ts");
  await main();
} else {
  process.stderr.write(`mooncake-kv: ${problem}\n`);
  process.exitCode = 1;
}
