import { INSTALL_WHEEL_COMMAND, WHEEL_VERSION } from "../../store/mooncake/interpreter.ts";
import type { Interpreter } from "../../store/mooncake/interpreter.ts";
import { fault, installCommand, MOONCAKE_ONLY, ok, warn } from "./check.ts";
import type { Finding } from "./check.ts";
import type { DoctorFacts, MachineFacts } from "./facts.ts";

/** Which Debian package brings a library that the wheel links. */
const DEBIAN_PACKAGES: readonly (readonly [library: string, debianPackage: string])[] = [
  ["libibverbs.so", "libibverbs1"],
  ["librdmacm.so", "librdmacm1"],
  ["libnuma.so", "libnuma1"],
  ["libcurl.so", "libcurl4"],
  ["libstdc++.so", "libstdc++6"],
];

/** Interpreter, its shared library, the wheel, and the wheel's own libraries. Each waits for the one before it. */
export function wheelChecks(facts: DoctorFacts): Finding[] {
  const { interpreter, machine } = facts;
  if (interpreter === null) {
    const fix = installCommand(["python3", "python3-venv"], machine);
    return [fault("python", "no python3 in .venv or on PATH", fix, MOONCAKE_ONLY)];
  }
  if ("problem" in interpreter) {
    const fix =
      interpreter.source === "MOONCAKE_PYTHON"
        ? "export MOONCAKE_PYTHON=$(command -v python3)   # or unset MOONCAKE_PYTHON"
        : `${interpreter.path} --version   # shows why; then make it new: ${INSTALL_WHEEL_COMMAND}`;
    const found = `${interpreter.path} (${interpreter.source}): ${interpreter.problem}`;
    return [fault("python", found, fix, MOONCAKE_ONLY)];
  }
  return [
    python(interpreter, machine),
    sharedLibrary(interpreter, machine),
    wheel(interpreter),
    ...libraries(facts),
  ];
}

function python({ path, source, version }: Interpreter, machine: MachineFacts): Finding {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major > 3 || (major === 3 && minor >= 8))
    return ok("python", `${version}, ${path} (${source})`);
  const fix = installCommand(["python3", "python3-venv"], machine);
  return fault("python", `${version}, ${path}; 3.8 or newer is needed`, fix, MOONCAKE_ONLY);
}

function sharedLibrary(interpreter: Interpreter, machine: MachineFacts): Finding {
  const { sharedLibrary: library, version } = interpreter;
  if (library !== null) return ok("libpython", library);
  const short = version.split(".").slice(0, 2).join(".");
  const fix = machine.debian
    ? `${installCommand([`libpython${short}`], machine)}   # pyenv: PYTHON_CONFIGURE_OPTS=--enable-shared pyenv install --force ${version}`
    : `PYTHON_CONFIGURE_OPTS=--enable-shared pyenv install --force ${version}`;
  const found = "this Python has no shared library, from which the engine runs it in the process";
  return fault("libpython", found, fix, MOONCAKE_ONLY);
}

function wheel({ path, source, mooncakeFolder, wheelName, wheelVersion }: Interpreter): Finding {
  const name = wheelName ?? "mooncake-transfer-engine-non-cuda";
  const pip = `${path} -m pip install ${name}==${WHEEL_VERSION}`;
  if (mooncakeFolder === null) {
    // Debian's own interpreter refuses pip, so there the way is a virtual environment.
    const fix = source === "PATH" ? INSTALL_WHEEL_COMMAND : pip;
    return fault("mooncake wheel", `not installed for ${path}`, fix, MOONCAKE_ONLY);
  }
  if (wheelVersion === WHEEL_VERSION) return ok("mooncake wheel", `${name} ${wheelVersion}`);
  const found = `${name} ${wheelVersion ?? "of unknown version"}; tested is ${WHEEL_VERSION}`;
  return warn("mooncake wheel", found, pip);
}

function libraries({ wheelLibraries, machine }: DoctorFacts): Finding[] {
  const name = "wheel's libraries";
  if (wheelLibraries === null) return [];
  const { missing, unknown } = wheelLibraries;
  if (unknown !== null)
    return [warn(name, `not known: ${unknown}`, installCommand(["libc-bin"], machine))];
  if (missing.length === 0) return [ok(name, "all found")];
  const packages = DEBIAN_PACKAGES.filter(([library]) =>
    missing.some((each) => each.startsWith(library)),
  ).map(([, debianPackage]) => debianPackage);
  const fix =
    packages.length === 0
      ? "use a newer distribution (Debian 12, Ubuntu 22.04 or newer), or another release of the wheel"
      : installCommand(packages, machine);
  return [fault(name, `not found: ${missing.join(", ")}`, fix, MOONCAKE_ONLY)];
}
