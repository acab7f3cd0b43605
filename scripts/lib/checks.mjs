import { join } from "node:path";
import { root } from "./steps.mjs";

const bin = (...path) => join(root, "node_modules", ...path);

/** The commands of `npm run check`. The house rules are tests: test/house. */
export const CHECKS = [
  { title: "types", args: [bin("typescript", "bin", "tsc"), "-p", "tsconfig.test.json"] },
  { title: "lint", args: [bin("oxlint", "bin", "oxlint"), "--type-aware", "--deny-warnings", "src", "test", "bench"] },
  { title: "format", args: [bin("oxfmt", "bin", "oxfmt"), "--check", "src", "test", "bench"] },
];
