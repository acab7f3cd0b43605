// `npm test`: sets the checkout up, runs every suite, ends with one line "N passed, N failed".
//   --full        the long counts and soaks of test/full too
//   --only a,b    only these suites (names as in the table)
import { runTests } from "./lib/test-run.mjs";
import { CHECKS } from "./lib/checks.mjs";
import { checkSuite, nativeSuite, vitestKinds, vitestSuite } from "./lib/suites.mjs";

/** Cheapest first, with time limits in seconds. A folder of test/ that is not named here runs too, after these. */
const VITEST_SECONDS = {
  house: 120,
  unit: 300,
  property: 240,
  vectors: 240,
  sim: 420,
  integration: 900,
  rdma: 600,
};
const OTHER_SECONDS = 300;
const FULL_SECONDS = 7200;

function suites(full) {
  const kinds = vitestKinds();
  const known = Object.keys(VITEST_SECONDS).filter((kind) => kinds.includes(kind));
  const others = kinds.filter((kind) => !(kind in VITEST_SECONDS) && kind !== "full");
  return [
    { name: "check", run: () => checkSuite(CHECKS) },
    { name: "native", run: () => nativeSuite("", 400) },
    { name: "native-asan", run: () => nativeSuite("address", 600) },
    { name: "native-tsan", run: () => nativeSuite("thread", 600) },
    ...[...known, ...others].map((kind) => ({
      name: kind,
      run: () => vitestSuite(kind, VITEST_SECONDS[kind] ?? OTHER_SECONDS),
    })),
    ...(full ? [{ name: "full", run: () => vitestSuite("full", FULL_SECONDS) }] : []),
  ];
}

await runTests(process.argv.slice(2), suites);
