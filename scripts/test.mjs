// `npm test`: sets the checkout up, runs every suite, ends with one line "N passed, N failed".
//   --full        the long counts and soaks of test/full too
//   --only a,b    only these suites (names as in the table)
import { runTests } from "./lib/test-run.mjs";
import { CHECKS } from "./lib/checks.mjs";
import { HANG_SECONDS } from "./lib/steps.mjs";
import { checkSuite, nativeSuite, vitestKinds, vitestSuite } from "./lib/suites.mjs";

/** Cheapest first. A folder of test/ that is not named here runs too, after these. */
const VITEST_KINDS = [
  "house",
  "unit",
  "property",
  "vectors",
  "sim",
  "attack",
  "integration",
  "rdma",
];

/** The soaks of test/full run for hours. */
const FULL_HANG_SECONDS = 4 * HANG_SECONDS;

function suites(full) {
  const kinds = vitestKinds();
  const known = VITEST_KINDS.filter((kind) => kinds.includes(kind));
  const others = kinds.filter((kind) => !VITEST_KINDS.includes(kind) && kind !== "full");
  return [
    { name: "check", run: () => checkSuite(CHECKS) },
    { name: "native", run: () => nativeSuite("") },
    { name: "native-asan", run: () => nativeSuite("address") },
    { name: "native-tsan", run: () => nativeSuite("thread") },
    ...[...known, ...others].map((kind) => ({
      name: kind,
      run: () => vitestSuite(kind),
    })),
    ...(full ? [{ name: "full", run: () => vitestSuite("full", FULL_HANG_SECONDS) }] : []),
  ];
}

await runTests(process.argv.slice(2), suites);
