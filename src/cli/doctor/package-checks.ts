import { OPEN_FILES_BUSY, OPEN_FILES_REMEDY, OPEN_FILES_RUNTIME } from "../../config/open-files.ts";
import { EVERY_ENGINE, fault, ok, warn } from "./check.ts";
import type { Finding } from "./check.ts";
import type { DoctorFacts, HashFacts } from "./facts.ts";

/** Node, the addon, the settings, and what comes with npm. */
export function packageChecks(facts: DoctorFacts): Finding[] {
  return [
    node(facts.machine.nodeVersion),
    openFiles(facts.machine.openFilesMax),
    addon(facts),
    settings(facts),
    hashSeed(facts.hash),
    ...facts.package.optional.map(({ name, purpose, wanted, installed }) =>
      installed
        ? ok(name, `installed (${purpose})`)
        : warn(name, `not installed; only ${purpose} needs it`, `npm install ${name}@${wanted}`),
    ),
    ...facts.ports.map(({ port, purpose, free }) =>
      free
        ? ok(`port ${port}`, `free (${purpose})`)
        : warn(
            `port ${port}`,
            `taken (${purpose})`,
            `ss -ltnp 'sport = :${port}'   # shows who has it`,
          ),
    ),
  ];
}

function node(version: string): Finding {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major > 20 || (major === 20 && minor >= 3)) return ok("node", version);
  return fault("node", `${version}; 20.3 or newer is needed`, "nvm install 20", EVERY_ENGINE);
}

function openFiles(most: number | null): Finding {
  const name = "open files";
  if (most === null) return ok(name, "unlimited");
  if (most < OPEN_FILES_RUNTIME)
    return fault(
      name,
      `${most}; ${OPEN_FILES_RUNTIME} are needed`,
      OPEN_FILES_REMEDY,
      EVERY_ENGINE,
    );
  if (most >= OPEN_FILES_BUSY) return ok(name, `${most} at a time`);
  return warn(name, `${most} at a time; a busy server has more connections`, OPEN_FILES_REMEDY);
}

function addon({ package: { addonProblem } }: DoctorFacts): Finding {
  if (addonProblem === null) return ok("native addon", "built, and loads");
  return fault("native addon", addonProblem.text, addonProblem.remedy, EVERY_ENGINE);
}

function settings({ engine, settingsProblem }: DoctorFacts): Finding {
  if (settingsProblem === null) return ok("settings", `valid; engine ${engine}`);
  return fault("settings", settingsProblem.text, settingsProblem.remedy, EVERY_ENGINE);
}

/** Without a seed vLLM draws random bytes for xxhash, and nobody shares anything. */
function hashSeed({ algorithm, seed }: HashFacts): Finding {
  const name = "PYTHONHASHSEED";
  if (seed !== null)
    return ok(name, `${JSON.stringify(seed)}; the same in every process of the pool`);
  if (!algorithm.startsWith("xxhash"))
    return ok(name, `unset: ${algorithm} starts from the fixed text of vLLM 0.33 and newer`);
  const found = `unset, and ${algorithm} starts from random bytes: no process shares a block with another`;
  return warn(name, found, "export PYTHONHASHSEED=0   # in every process that shares the pool");
}
