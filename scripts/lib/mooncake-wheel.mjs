import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { findProgram, root, runStep, StepFailure } from "./steps.mjs";
import { installPackages } from "./tools.mjs";

/** Mooncake's pip package: master, owner, store and transfer engine. The build for machines without CUDA runs everywhere. */
export const WHEEL = "mooncake-transfer-engine-non-cuda";
export const WHEEL_VERSION = "0.3.13.post1";

/** Shared libraries that the wheel does not bring along, and the Debian packages that do. */
const LIBRARIES = [
  { library: "libibverbs.so.1", debianPackage: "libibverbs1" },
  { library: "librdmacm.so.1", debianPackage: "librdmacm1" },
  { library: "libnuma.so.1", debianPackage: "libnuma1" },
  { library: "libcurl.so.4", debianPackage: "libcurl4" },
];

/** Prints what the engine needs of an interpreter, as JSON. */
const PROBE = `
import importlib.util as util, json, os, sys, sysconfig
variable = sysconfig.get_config_var
name = "libpython%d.%d.so.1.0" % sys.version_info[:2]
folders = [variable("LIBDIR") or "", os.path.join(variable("LIBDIR") or "", variable("MULTIARCH") or "")]
print(json.dumps({
  "version": "%d.%d" % sys.version_info[:2],
  "shared": any(os.path.exists(os.path.join(folder, name)) for folder in folders),
  "venv": all(util.find_spec(module) is not None for module in ("venv", "ensurepip")),
}))
`;

/**
 * Makes the project's virtual environment (.venv) with the Mooncake wheel, for the tests against a real pool. Done already:
 * a few file look-ups. What cannot be done is named with the command that does it.
 */
export async function ensureMooncakeWheel() {
  await ensureLibraries();
  const folder = join(root, ".venv");
  const wanted = `${WHEEL}==${WHEEL_VERSION}`;
  const has = wheelIn(folder);
  if (has === WHEEL_VERSION) return;
  if (!existsSync(join(folder, "bin", "python3"))) await makeEnvironment(folder);
  const title = has === null ? `install ${wanted} into .venv` : `replace ${has} by ${wanted}`;
  const args = ["-m", "pip", "install", "--disable-pip-version-check", "--no-input", wanted];
  const answer = await runStep(title, join(folder, "bin", "python3"), args, {
    timeoutSeconds: 600,
    allowFailure: true,
  });
  if (answer.code === 0 && wheelIn(folder) === WHEEL_VERSION) return;
  process.stderr.write(answer.output.slice(-4000));
  throw new StepFailure(
    `The Mooncake wheel could not be installed (above is what pip says). By hand: .venv/bin/python3 -m pip install ${wanted}\n` +
      "It needs x86_64 or aarch64 Linux with glibc, Python 3.8 or newer, and a package index that pip can reach.",
  );
}

/** Version of the wheel in a virtual environment, or null. pip writes RECORD last, so an installation cut off is absent. */
function wheelIn(folder) {
  const library = join(folder, "lib");
  if (!existsSync(join(folder, "bin", "python3")) || !existsSync(library)) return null;
  const name = new RegExp(`^${WHEEL.replaceAll("-", "_")}-(.+)\\.dist-info$`);
  for (const python of readdirSync(library)) {
    const packages = join(library, python, "site-packages");
    if (!existsSync(packages)) continue;
    for (const entry of readdirSync(packages)) {
      const version = name.exec(entry)?.[1];
      if (version !== undefined && existsSync(join(packages, entry, "RECORD"))) return version;
    }
  }
  return null;
}

async function makeEnvironment(folder) {
  let python = choosePython();
  const debian = python.path.startsWith("/usr/bin/");
  const missing = [
    ...(python.venv ? [] : [debian ? "python3-venv" : null]),
    ...(python.shared ? [] : [debian ? `libpython${python.version}` : null]),
  ];
  if (missing.includes(null)) {
    throw new StepFailure(
      `${python.path} (Python ${python.version}) has no ${python.venv ? "shared library" : "venv module"}, which the Mooncake engine needs. ` +
        "Build it with --enable-shared (pyenv: PYTHON_CONFIGURE_OPTS=--enable-shared pyenv install --force " +
        `${python.version}), or put another python3 first on PATH, then run this again.`,
    );
  }
  if (missing.length > 0) {
    await installPackages(missing);
    python = probe(python.path) ?? python;
  }
  await runStep("make .venv", python.path, ["-m", "venv", folder], { timeoutSeconds: 120 });
}

/** python3 on PATH, or the system's when only that one has a shared library. */
function choosePython() {
  const paths = [findProgram("python3"), "/usr/bin/python3"].filter(
    (path) => path !== null && existsSync(path),
  );
  const found = paths.map(probe).filter((python) => python !== null);
  const chosen = found.find((python) => python.shared && python.venv) ?? found[0];
  if (chosen !== undefined) return chosen;
  throw new StepFailure(
    "No python3 runs here. On Debian: apt-get install python3 python3-venv. Then run this again.",
  );
}

function probe(path) {
  const answer = spawnSync(path, ["-c", PROBE], { encoding: "utf8", timeout: 30_000 });
  return answer.status === 0 ? { path, ...JSON.parse(answer.stdout) } : null;
}

async function ensureLibraries() {
  const missing = missingLibraries();
  if (missing.length === 0) return;
  await installPackages(missing.map(({ debianPackage }) => debianPackage));
  const still = missingLibraries().map(({ library }) => library);
  if (still.length > 0)
    throw new StepFailure(`Still missing after the installation: ${still.join(", ")}.`);
}

/** Asks the loader's own list; without ldconfig (not glibc, or no PATH to it) nothing is known and nothing is installed. */
function missingLibraries() {
  const program = findProgram("ldconfig") ?? "/sbin/ldconfig";
  const answer = spawnSync(program, ["-p"], { encoding: "utf8", timeout: 30_000 });
  if (answer.status !== 0) return [];
  return LIBRARIES.filter(({ library }) => !answer.stdout.includes(`\t${library} (`));
}
