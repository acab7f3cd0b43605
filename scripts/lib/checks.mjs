import { join } from "node:path";
import { root } from "./steps.mjs";

const bin = (...path) => join(root, "node_modules", ...path);
const compiler = bin("typescript", "bin", "tsc");

/** The commands of `npm run check`, each one test. The house rules are tests of their own: test/house. */
export const CHECKS = [
  {
    title: "types of src",
    args: [compiler, "-p", "tsconfig.json", "--noEmit", "--incremental", "false"],
  },
  { title: "types of test and bench", args: [compiler, "-p", "tsconfig.test.json"] },
  {
    title: "lint",
    args: [
      bin("oxlint", "bin", "oxlint"),
      "--type-aware",
      "--deny-warnings",
      "src",
      "test",
      "bench",
      "scripts",
    ],
  },
  {
    title: "format",
    args: [bin("oxfmt", "bin", "oxfmt"), "--check", "src", "test", "bench", "scripts"],
  },
];
