import { existsSync } from "node:fs";
import { join } from "node:path";
import { findProgram, runStep, StepFailure } from "./steps.mjs";

/** What a build needs, with the Debian package that brings it. */
const NEEDED = [
  { program: "g++", debianPackage: "g++" },
  { program: "cmake", debianPackage: "cmake" },
  { program: "make", debianPackage: "make" },
  { program: "python3", debianPackage: "python3" },
  { program: "npm", debianPackage: "npm" },
];

const GTEST_HEADER = "/usr/include/gtest/gtest.h";

/** Checks Node and the programs of a build; installs small things where it may, names the rest with the command that fixes it. */
export async function ensureTools({ tests }) {
  const major = Number(process.versions.node.split(".")[0]);
  if (major < 20) {
    throw new StepFailure(`Node ${process.versions.node} is too old: mooncake-kv needs Node 20 or newer. Install it, then run this again.`);
  }
  const missing = NEEDED.filter(({ program }) => findProgram(program) === null).map((need) => need.debianPackage);
  if (tests && !existsSync(GTEST_HEADER)) missing.push("libgtest-dev");
  if (missing.length > 0) await installPackages(missing);
  if (findProgram("python3") !== null) {
    const { code } = await runStep(
      "python3 is 3.8 or newer",
      "python3",
      ["-c", "import sys; sys.exit(sys.version_info < (3, 8))"],
      { allowFailure: true, timeoutSeconds: 30 },
    );
    if (code !== 0) throw new StepFailure("python3 is older than 3.8. Install Python 3.8 or newer, then run this again.");
  }
}

/** Installs Debian packages when this is root on Debian, else says what to type. */
export async function installPackages(packages) {
  const command = `apt-get install -y --no-install-recommends ${packages.join(" ")}`;
  if (findProgram("apt-get") === null || process.getuid?.() !== 0) {
    throw new StepFailure(`Missing: ${packages.join(", ")}. Install with: sudo ${command}`);
  }
  const env = { DEBIAN_FRONTEND: "noninteractive" };
  await runStep("apt-get update", "apt-get", ["update", "-q"], { timeoutSeconds: 300, env });
  await runStep(`install ${packages.join(", ")}`, "apt-get", command.split(" ").slice(1), { timeoutSeconds: 600, env });
}

/** Folder that holds uv.h, which comes with Node itself. */
export function nodeIncludeFolder() {
  const candidates = [
    join(process.execPath, "..", "..", "include", "node"),
    "/usr/include/node",
    "/usr/local/include/node",
    ...(process.env.npm_config_nodedir ? [join(process.env.npm_config_nodedir, "include", "node")] : []),
  ];
  const found = candidates.find((folder) => existsSync(join(folder, "uv.h")));
  if (found !== undefined) return found;
  throw new StepFailure(
    `Node's own headers (uv.h) were not found in ${candidates.join(", ")}. ` +
      "Install the package libnode-dev, or a Node distribution that carries include/node, then run this again.",
  );
}
