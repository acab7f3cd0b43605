// Makes a checkout ready: tools, npm packages, the Mooncake wheel for the tests, addon, dist. May be run again at any time; then it takes seconds.
//   --without-tests   does not ask for what only the tests need
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "./build.mjs";
import { readArguments } from "./lib/arguments.mjs";
import { root, runMain, runStep, StepFailure } from "./lib/steps.mjs";
import { ensureMooncakeWheel } from "./lib/mooncake-wheel.mjs";
import { ensureTools, nodeIncludeFolder } from "./lib/tools.mjs";

export async function setUp({ tests = false } = {}) {
  if (!existsSync(join(root, "package-lock.json"))) {
    throw new StepFailure(
      "package-lock.json is missing: this is not a whole checkout. Clone the repository again.",
    );
  }
  await ensureTools({ tests });
  nodeIncludeFolder();
  if (packagesAreStale()) {
    await runStep("install npm packages", "npm", ["ci", "--no-audit", "--no-fund"], {
      timeoutSeconds: 600,
      // The CPU build comes in the package; the install script would fetch a GPU build.
      env: { ONNXRUNTIME_NODE_INSTALL: "skip" },
    });
  }
  namePackagesLeftOut();
  if (tests) await ensureMooncakeWheel();
  await build();
}

function packagesAreStale() {
  // npm writes this file last, so that an installation that was cut off counts as absent.
  const installed = join(root, "node_modules", ".package-lock.json");
  if (!existsSync(installed)) return true;
  return statSync(installed).mtimeMs < statSync(join(root, "package-lock.json")).mtimeMs;
}

/** npm leaves optional packages out in silence when they do not fit the machine; here all of them are compiled against. */
function namePackagesLeftOut() {
  const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const wanted = ["dependencies", "optionalDependencies", "devDependencies"].flatMap((group) =>
    Object.keys(manifest[group] ?? {}),
  );
  const absent = wanted.filter(
    (name) => !existsSync(join(root, "node_modules", name, "package.json")),
  );
  if (absent.length === 0) return;
  throw new StepFailure(
    `npm left out ${absent.join(", ")}. Remove node_modules and run this again; if they stay out, ` +
      "`npm install --loglevel verbose` says why (an engine, a platform, a package that cannot be fetched).",
  );
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  await runMain(() => {
    const options = { "without-tests": { type: "boolean" } };
    const { values } = readArguments(
      process.argv.slice(2),
      options,
      "npm run setup -- [--without-tests]",
    );
    return setUp({ tests: values["without-tests"] !== true });
  });
}
