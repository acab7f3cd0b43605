import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { readEnvironment } from "../../config/environment.ts";
import type { ConnectorEnvironment } from "../../config/environment.ts";
import type { EngineKind } from "../../config/connector-config.ts";
import { parseTransferConfig } from "../../config/transfer-config.ts";
import { MooncakeKvError } from "../../errors.ts";
import { loadNative } from "../../native/load.ts";
import { isPortFree } from "../../pool/ports.ts";
import { findInterpreter } from "../../store/mooncake/interpreter.ts";
import { packageRoot } from "../../worker-entry.ts";
import { problemOf } from "./facts.ts";
import type {
  DoctorFacts,
  DoctorQuestion,
  OptionalPackage,
  PackageFacts,
  PortFacts,
  Problem,
} from "./facts.ts";
import { gatherStore } from "./gather-store.ts";
import { machineFacts, rdmaDevices, wheelLibraries } from "./machine.ts";

/** Looks at the machine, the package and the pool. Every look has a deadline; nothing is changed. Throws for no fault found. */
export async function gatherFacts(question: DoctorQuestion): Promise<DoctorFacts> {
  const { environment, problem: environmentProblem } = environmentOf(question.variables);
  const [interpreter, store, ports] = await Promise.all([
    findInterpreter({
      python: environment.python,
      workingFolder: question.workingFolder,
      searchPath: environment.searchPath,
    }),
    gatherStore(environment, question),
    portFacts(environment),
  ]);
  const settings = settingsOf(question, environment);
  const folder =
    interpreter === null || "problem" in interpreter ? null : interpreter.mooncakeFolder;
  return {
    engine: question.engine ?? settings.engine,
    // What is wrong with the store's JSON is told once, by its own check.
    settingsProblem:
      environmentProblem ??
      (settings.problem?.text === store.problem?.text ? null : settings.problem),
    machine: machineFacts(question.variables),
    package: packageFacts(),
    interpreter,
    wheelLibraries: folder === null ? null : await wheelLibraries(folder),
    rdma: rdmaDevices(),
    store,
    ports,
    hash: { algorithm: question.hashAlgorithm, seed: environment.hashSeed },
  };
}

/** A variable that cannot be read is a finding; the others are looked at all the same. */
function environmentOf(variables: DoctorQuestion["variables"]): {
  environment: ConnectorEnvironment;
  problem: Problem | null;
} {
  let problem: Problem | null = null;
  const usable = { ...variables };
  for (;;) {
    try {
      return { environment: readEnvironment(usable), problem };
    } catch (error) {
      if (!(error instanceof MooncakeKvError) || usable[error.field] === undefined) throw error;
      problem ??= problemOf(error);
      delete usable[error.field];
    }
  }
}

function settingsOf(
  { kvTransferConfig }: DoctorQuestion,
  environment: ConnectorEnvironment,
): { engine: EngineKind; problem: Problem | null } {
  try {
    return {
      engine: parseTransferConfig(kvTransferConfig, environment).config.engine,
      problem: null,
    };
  } catch (error) {
    if (!(error instanceof MooncakeKvError)) throw error;
    const engine = environment.configPath === null ? "local" : "mooncake";
    return { engine, problem: problemOf(error) };
  }
}

function packageFacts(): PackageFacts {
  const folder = packageRoot();
  let addonProblem: Problem | null = null;
  try {
    loadNative();
  } catch (error) {
    if (!(error instanceof MooncakeKvError)) throw error;
    addonProblem = problemOf(error);
  }
  return { folder, addonProblem, optional: optionalPackages(folder) };
}

const OPTIONAL: readonly (readonly [name: string, purpose: string])[] = [
  ["onnxruntime-node", "mooncake-kv serve"],
  ["fastify", "mooncake-kv serve"],
  ["zeromq", "KV events and the lookup socket"],
];

function optionalPackages(folder: string): OptionalPackage[] {
  const manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as {
    optionalDependencies?: Record<string, string>;
  };
  const paths = createRequire(join(folder, "package.json")).resolve.paths("x") ?? [];
  return OPTIONAL.map(([name, purpose]) => ({
    name,
    purpose,
    wanted: manifest.optionalDependencies?.[name] ?? "latest",
    // Not resolved: packages for ES modules only have nothing that `require` would find.
    installed: paths.some((path) => existsSync(join(path, name, "package.json"))),
  }));
}

async function portFacts(environment: ConnectorEnvironment): Promise<PortFacts[]> {
  const wanted: readonly (readonly [number, string])[] = [
    [50_051, "the master's default"],
    [environment.bootstrapPort, "bootstrap of the direct connector"],
    [8_000, "mooncake-kv serve's default"],
  ];
  return Promise.all(
    wanted.map(async ([port, purpose]) => ({
      port,
      purpose,
      free: await isPortFree(port, "0.0.0.0"),
    })),
  );
}
