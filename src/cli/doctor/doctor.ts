import { type Command, Option } from "commander";
import { ENGINE_KINDS } from "../../config/connector-config.ts";
import type { EngineKind } from "../../config/connector-config.ts";
import { hashAlgorithmOption } from "../options.ts";
import { settle } from "./check.ts";
import type { Check } from "./check.ts";
import { fabricChecks } from "./fabric-checks.ts";
import type { DoctorFacts } from "./facts.ts";
import { gatherFacts } from "./gather.ts";
import { packageChecks } from "./package-checks.ts";
import { storeChecks } from "./store-checks.ts";
import { wheelChecks } from "./wheel-checks.ts";

interface DoctorFlags {
  readonly kvTransferConfig?: string;
  readonly engine?: EngineKind;
  readonly prefixCachingHashAlgo: string;
  readonly metrics?: string;
  readonly json?: boolean;
}

/** `mooncake-kv doctor`: exit code 1 when something that the configured engine needs is at fault. */
export function addDoctorCommand(program: Command): void {
  program
    .command("doctor")
    .description(
      "check what this machine, the settings and the pool lack; each fault with the command that mends it",
    )
    .option("--kv-transfer-config <json>", "the settings to check, as vLLM takes them")
    .addOption(
      new Option(
        "--engine <name>",
        "check for this engine (default: what the settings say)",
      ).choices(ENGINE_KINDS),
    )
    .addOption(hashAlgorithmOption())
    .option(
      "--metrics <host:port>",
      "the master's metrics address (default: known, or its host with port 9003)",
    )
    .option("--json", "print one JSON object")
    .action(doctor);
}

async function doctor(flags: DoctorFlags): Promise<void> {
  const facts = await gatherFacts({
    variables: process.env,
    workingFolder: process.cwd(),
    kvTransferConfig: flags.kvTransferConfig,
    engine: flags.engine ?? null,
    hashAlgorithm: flags.prefixCachingHashAlgo,
    metrics: flags.metrics ?? null,
  });
  const checks = examine(facts);
  const healthy = checks.every(({ status }) => status !== "fail");
  process.stdout.write(
    flags.json === true
      ? `${JSON.stringify({ engine: facts.engine, healthy, checks })}\n`
      : inWords(facts.engine, checks),
  );
  if (!healthy) process.exitCode = 1;
}

/** All checks in the order in which one mends them. */
export function examine(facts: DoctorFacts): Check[] {
  return [
    ...packageChecks(facts),
    ...wheelChecks(facts),
    ...fabricChecks(facts),
    ...storeChecks(facts),
  ].map((finding) => settle(finding, facts.engine));
}

function inWords(engine: EngineKind, checks: readonly Check[]): string {
  const width = Math.max(...checks.map(({ name }) => name.length));
  const lines = checks.flatMap(({ name, status, found, fix }) => [
    `${status.padEnd(4)}  ${name.padEnd(width)}  ${found}`,
    ...(fix === null ? [] : [`${" ".repeat(width + 8)}fix: ${fix}`]),
  ]);
  const count = (status: Check["status"]): number =>
    checks.filter((check) => check.status === status).length;
  const faults = count("fail");
  const verdict =
    faults === 0
      ? `The ${engine} engine has what it needs`
      : `The ${engine} engine lacks ${faults} of what it needs`;
  return `${lines.join("\n")}\n\n${verdict} (${count("warn")} warnings).\n`;
}
