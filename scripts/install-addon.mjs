// npm's install step where the package was installed: the addon that came along is used when it loads here, else it is
// built. A failure is a warning only, because npm would remove the package; loading the addon later names the remedy again.
import { chmodSync, existsSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { addonPath, buildNative, engineProgramPath } from "./build-native.mjs";
import { findProgram, root, StepFailure } from "./lib/steps.mjs";

function addonLoads() {
  try {
    createRequire(import.meta.url)(addonPath);
    return true;
  } catch {
    return false;
  }
}

async function install() {
  // In a checkout `npm run setup` builds it, after npm has installed what that needs.
  if (existsSync(join(root, "src"))) return;
  if (existsSync(addonPath) && existsSync(engineProgramPath) && addonLoads()) {
    // Package managers may unpack without the permission to execute.
    chmodSync(engineProgramPath, 0o755);
    return;
  }
  const missing = ["g++", "cmake"].filter((program) => findProgram(program) === null);
  if (missing.length > 0)
    throw new StepFailure(
      `${missing.join(" and ")} missing (Debian: apt-get install g++ cmake ninja-build)`,
    );
  await buildNative();
  if (!addonLoads()) throw new StepFailure(`the addon was built but does not load: ${addonPath}`);
}

try {
  await install();
} catch (error) {
  process.stderr.write(
    `mooncake-kv: the native addon is not ready: ${error.message}\n` +
      "mooncake-kv: when that is mended, run `npm rebuild mooncake-kv`.\n",
  );
}
