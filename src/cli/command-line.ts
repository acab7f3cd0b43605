import { Command, CommanderError } from "commander";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../worker-entry.ts";
import { addConfigCommand } from "./config/commands.ts";
import { addDoctorCommand } from "./doctor/doctor.ts";
import { errorText } from "./error-text.ts";
import { addPoolCommand } from "./pool/commands.ts";
import { addServeCommand } from "./serve-command.ts";

/** Exit codes: 0 done, 1 a failure that the text explains, 2 the command line itself is wrong. */
const EXIT_FAILURE = 1;
const EXIT_USAGE = 2;

/** Runs the command that the arguments name; sets the exit code. */
export async function main(): Promise<void> {
  try {
    await runCommand();
  } catch (error) {
    if (error instanceof CommanderError) {
      process.exitCode = error.exitCode === 0 ? 0 : EXIT_USAGE;
    } else {
      process.stderr.write(`mooncake-kv: ${errorText(error)}\n`);
      process.exitCode = EXIT_FAILURE;
    }
  }
}

async function runCommand(): Promise<void> {
  const manifest: unknown = JSON.parse(readFileSync(join(packageRoot(), "package.json"), "utf8"));
  const version = (manifest as { version: string }).version;
  const program = new Command("mooncake-kv")
    .description("Shared KV-cache pool for TypeScript serving loops")
    .version(version)
    .exitOverride();
  addServeCommand(program);
  addPoolCommand(program);
  addDoctorCommand(program);
  addConfigCommand(program);
  await program.parseAsync(process.argv);
}
