import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { cmakeBuild } from "./cmake.mjs";
import { HANG_SECONDS, root, runStep } from "./steps.mjs";

/** A suite that could not run counts as one failure. */
const couldNotRun = (output) => ({ passed: 0, failed: 1, skipped: 0, output });

/** Each command of `npm run check` counts as one test. */
export async function checkSuite(commands) {
  const result = { passed: 0, failed: 0, skipped: 0, output: "" };
  for (const { title, args } of commands) {
    const { code, output } = await runStep(title, process.execPath, args, {
      allowFailure: true,
    });
    if (code === 0) result.passed++;
    else {
      result.failed++;
      result.output += `${title}:\n${output}\n`;
    }
  }
  return result;
}

/** Vitest over one folder of test/. Skipped tests count as failed: a test that never runs proves nothing. */
export async function vitestSuite(kind, timeoutSeconds = HANG_SECONDS) {
  const reports = join(root, "build", "reports");
  const report = join(reports, `${kind}.json`);
  mkdirSync(reports, { recursive: true });
  rmSync(report, { force: true });
  const vitest = join(root, "node_modules", "vitest", "vitest.mjs");
  const args = [
    vitest,
    "run",
    join(root, "test", kind, "/"),
    "--reporter=default",
    "--reporter=json",
    `--outputFile.json=${report}`,
  ];
  const { code, output } = await runStep(`test/${kind}`, process.execPath, args, {
    timeoutSeconds,
    allowFailure: true,
    env: { NO_COLOR: "1", FORCE_COLOR: undefined },
  });
  const text = existsSync(report) ? readFileSync(report, "utf8") : "";
  if (text === "") return couldNotRun(output);
  return countVitest(JSON.parse(text), code, output);
}

export function countVitest(report, code, output) {
  const tests = report.testResults.flatMap((file) => file.assertionResults);
  const passed = tests.filter((each) => each.status === "passed").length;
  const failed = tests.filter((each) => each.status === "failed").length;
  const others = tests.length - passed - failed;
  // A file that could not be loaded has no tests to count: it is one failure.
  const unloadable = report.testResults.filter(
    (file) => file.status === "failed" && file.assertionResults.length === 0,
  ).length;
  const total = failed + others + unloadable;
  // An error outside of any test (an unhandled rejection, a worker that crashed) shows in the exit code alone.
  return {
    passed,
    failed: total === 0 && (code !== 0 || passed === 0) ? 1 : total,
    skipped: others,
    output,
  };
}

const SANITIZER_FOLDERS = {
  "": "native-test",
  address: "native-test-asan",
  thread: "native-test-tsan",
};

/** GoogleTest programs: plain (""), or with one sanitizer. */
export async function nativeSuite(sanitizer) {
  const title = sanitizer === "" ? "test/native" : `test/native (${sanitizer} sanitizer)`;
  const folder = join(root, "build", SANITIZER_FOLDERS[sanitizer]);
  const built = await cmakeBuild(
    title,
    folder,
    {
      CMAKE_BUILD_TYPE: "Release",
      MOONCAKE_KV_ADDON: "OFF",
      MOONCAKE_KV_TESTS: "ON",
      MOONCAKE_KV_SANITIZER: sanitizer,
      CMAKE_UNITY_BUILD: "ON",
    },
    { allowFailure: true },
  );
  if (built.code !== 0) return couldNotRun(built.output);
  const report = join(folder, "junit.xml");
  rmSync(report, { force: true });
  const args = [
    "--test-dir",
    folder,
    "--output-on-failure",
    "--parallel",
    "2",
    "--timeout",
    "900",
    "--output-junit",
    report,
  ];
  const { code, output } = await runStep(title, "ctest", args, {
    allowFailure: true,
  });
  return existsSync(report)
    ? countJunit(readFileSync(report, "utf8"), code, output)
    : couldNotRun(output);
}

/** A GoogleTest that skips itself needs hardware that is not here: it is shown, and counts neither way. */
export function countJunit(xml, code, output) {
  const head = /<testsuite\b[^>]*>/.exec(xml)?.[0] ?? "";
  const number = (name) => Number(new RegExp(`\\b${name}="(\\d+)"`).exec(head)?.[1] ?? Number.NaN);
  const [tests, failures, disabled, skipped] = ["tests", "failures", "disabled", "skipped"].map(
    number,
  );
  if (!(tests > 0)) return couldNotRun(output);
  const failed = failures + disabled;
  return {
    passed: tests - failed - skipped,
    failed: failed === 0 && code !== 0 ? 1 : failed,
    skipped,
    output,
  };
}

/** Folders of test/ that hold vitest files, `native` and the long ones of `full` apart. */
export function vitestKinds() {
  const folders = readdirSync(join(root, "test"), { withFileTypes: true }).filter((entry) =>
    entry.isDirectory(),
  );
  return folders
    .map((entry) => entry.name)
    .filter((name) =>
      readdirSync(join(root, "test", name)).some((file) => file.endsWith(".test.ts")),
    );
}
