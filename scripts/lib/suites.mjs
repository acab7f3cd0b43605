import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { cmakeGenerator } from "../build-native.mjs";
import { root, runStep } from "./steps.mjs";

/** Result of a suite: counts of single tests. A suite that could not run counts as one failure. */
const failedToRun = (output) => ({ passed: 0, failed: 1, output });

/** Vitest over one folder of test/. */
export async function vitestSuite(kind, timeoutSeconds) {
  const report = join(root, "build", "reports", `${kind.replaceAll("/", "-")}.json`);
  mkdirSync(join(root, "build", "reports"), { recursive: true });
  rmSync(report, { force: true });
  const { code, output } = await runStep(
    `test/${kind}`,
    process.execPath,
    [
      join(root, "node_modules", "vitest", "vitest.mjs"),
      "run",
      "--reporter=json",
      `--outputFile.json=${report}`,
      "--reporter=default",
      "--dir",
      join("test", kind),
    ],
    { timeoutSeconds, allowFailure: true },
  );
  if (!existsSync(report)) return failedToRun(output);
  const result = JSON.parse(readFileSync(report, "utf8"));
  // A test file that could not be loaded has no tests to count: it is one failure.
  const unloadable = result.testResults.filter((file) => file.status === "failed" && file.assertionResults.length === 0).length;
  const failed = result.numFailedTests + unloadable;
  return { passed: result.numPassedTests, failed: failed > 0 || code === 0 ? failed : 1, skipped: result.numPendingTests, output };
}

/** GoogleTest programs: plain, or with one sanitizer. */
export async function nativeSuite(sanitizer, timeoutSeconds) {
  const name = sanitizer === "" ? "native" : `native (${sanitizer} sanitizer)`;
  const folder = join(root, "build", sanitizer === "" ? "native-test" : `native-test-${sanitizer}`);
  const build = [
    ["-S", "native", "-B", folder, "-DMOONCAKE_KV_ADDON=OFF", "-DMOONCAKE_KV_TESTS=ON", `-DMOONCAKE_KV_SANITIZER=${sanitizer}`, ...cmakeGenerator()],
    ["--build", folder, "--parallel", "2"],
  ];
  for (const args of build) {
    const { code, output } = await runStep(`${name}: ${args[0] === "-S" ? "configure" : "build"}`, "cmake", args, { timeoutSeconds, allowFailure: true });
    if (code !== 0) return failedToRun(output);
  }
  const junit = join(folder, "junit.xml");
  rmSync(junit, { force: true });
  const { output } = await runStep(
    name,
    "ctest",
    ["--test-dir", folder, "--output-on-failure", "--parallel", "2", "--timeout", "120", "--output-junit", junit],
    { timeoutSeconds, allowFailure: true },
  );
  if (!existsSync(junit)) return failedToRun(output);
  const [, tests, failures] = /tests="(\d+)"\s+failures="(\d+)"/.exec(readFileSync(junit, "utf8")) ?? [];
  if (tests === undefined || tests === "0") return failedToRun(output);
  return { passed: Number(tests) - Number(failures), failed: Number(failures), output };
}

/** Each command of `npm run check` counts as one test. */
export async function checkSuite(commands) {
  let passed = 0;
  let failed = 0;
  let all = "";
  for (const { title, args } of commands) {
    const { code, output } = await runStep(title, process.execPath, args, { timeoutSeconds: 180, allowFailure: true });
    if (code === 0) passed++;
    else {
      failed++;
      all += `${title}\n${output}\n`;
    }
  }
  return { passed, failed, output: all };
}
