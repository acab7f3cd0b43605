import { spawnSync } from "node:child_process";
import { existsSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { findProgram, runStep, StepFailure } from "./steps.mjs";

/** What a build needs: any one of `programs`, and the Debian package that brings the first. */
const NEEDED = [
  { programs: ["g++"], debianPackage: "g++" },
  { programs: ["cmake"], debianPackage: "cmake" },
  { programs: ["ninja", "make"], debianPackage: "ninja-build" },
];

/**
 * Checks Node and the programs of a build before anything is started. Small things are installed where that is possible
 * (root on Debian); everything else is named, all at once, with the command that fixes it.
 */
export async function ensureTools({ tests }) {
  const problems = [nodeProblem(), npmProblem(), pythonProblem()].filter(
    (problem) => problem !== null,
  );
  if (problems.length > 0) throw new StepFailure(problems.join("\n"));
  const missing = missingPackages({ tests });
  if (missing.length === 0) return;
  await installPackages(missing);
  const still = missingPackages({ tests });
  if (still.length > 0)
    throw new StepFailure(`Still missing after the installation: ${still.join(", ")}.`);
}

function missingPackages({ tests }) {
  const missing = NEEDED.filter(({ programs }) =>
    programs.every((program) => findProgram(program) === null),
  );
  const packages = missing.map((need) => need.debianPackage);
  if (tests && !hasGoogleTest()) packages.push("libgtest-dev");
  return packages;
}

export function nodeProblem(version = process.versions.node) {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  // The package runs on 20.3; the development tools want 20.19.
  if (major > 20 || (major === 20 && minor >= 19)) return null;
  return (
    `Node ${version} is too old: a checkout needs Node 20.19 or newer. ` +
    "Install it from https://nodejs.org (or: nvm install 20), then run this again."
  );
}

function npmProblem() {
  if (findProgram("npm") !== null) return null;
  return "npm is missing. It comes with Node from https://nodejs.org; on Debian: apt-get install npm. Then run this again.";
}

function pythonProblem() {
  const install = "Install it (Debian: apt-get install python3), then run this again.";
  if (findProgram("python3") === null)
    return `python3 is missing; Python 3.8 or newer is needed. ${install}`;
  const program = "import sys; print('.'.join(map(str, sys.version_info[:2])))";
  const answer = spawnSync("python3", ["-c", program], { encoding: "utf8", timeout: 30_000 });
  const [major = 0, minor = 0] = (answer.stdout ?? "").trim().split(".").map(Number);
  if (answer.status === 0 && (major > 3 || (major === 3 && minor >= 8))) return null;
  const found = answer.status === 0 ? `is ${answer.stdout.trim()}` : "does not run";
  return `python3 ${found}; Python 3.8 or newer is needed. ${install}`;
}

/** Asks the compiler, because GoogleTest may lie anywhere on its path. */
function hasGoogleTest() {
  if (findProgram("g++") === null) return existsSync("/usr/include/gtest/gtest.h");
  const source = "#if !__has_include(<gtest/gtest.h>)\n#error none\n#endif\n";
  return (
    spawnSync("g++", ["-E", "-x", "c++", "-"], { input: source, timeout: 30_000 }).status === 0
  );
}

/** Installs Debian packages when this is root on Debian, else says what to type. */
export async function installPackages(packages) {
  const args = ["install", "-y", "--no-install-recommends", ...packages];
  if (findProgram("apt-get") === null || process.getuid?.() !== 0) {
    throw new StepFailure(
      `Missing: ${packages.join(", ")}. On Debian: sudo apt-get ${args.join(" ")}`,
    );
  }
  const env = { DEBIAN_FRONTEND: "noninteractive" };
  const title = `install ${packages.join(", ")}`;
  // The package lists of a fresh machine are empty and those of an old one stale: update only when it does not work without.
  const first = await runStep(title, "apt-get", args, {
    timeoutSeconds: 600,
    env,
    allowFailure: true,
  });
  if (first.code === 0) return;
  await runStep("apt-get update", "apt-get", ["update", "-q"], { timeoutSeconds: 300, env });
  await runStep(title, "apt-get", args, { timeoutSeconds: 600, env });
}

/** Folder that holds uv.h, which comes with Node itself. */
export function nodeIncludeFolder() {
  const nodeFolders = [
    join(realpathSync(process.execPath), "..", ".."),
    process.env.npm_config_nodedir,
    process.env.NODEDIR,
    "/usr",
    "/usr/local",
  ];
  const candidates = nodeFolders.filter(Boolean).map((folder) => join(folder, "include", "node"));
  const found = candidates.find((folder) => existsSync(join(folder, "uv.h")));
  if (found !== undefined) return found;
  throw new StepFailure(
    `Node's own headers (uv.h) were not found in ${candidates.join(", ")}. ` +
      "Use a Node distribution that carries include/node (nodejs.org; Debian: apt-get install libnode-dev), " +
      "or set NODEDIR to its folder, then run this again.",
  );
}
