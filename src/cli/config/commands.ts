import type { Command } from "commander";
import { formatWarning } from "../../config/warnings.ts";
import { table } from "../table.ts";
import { effectiveSettings } from "./settings.ts";
import type { EffectiveSettings, Setting } from "./settings.ts";

/** `mooncake-kv config print` */
export function addConfigCommand(program: Command): void {
  program
    .command("config")
    .description("the connector's settings")
    .command("print")
    .description("every setting, its value, and where it came from; with the warnings")
    .option("--kv-transfer-config <json>", "as vLLM takes it")
    .option("--json", "print one JSON object")
    .action((flags: { readonly kvTransferConfig?: string; readonly json?: boolean }) => {
      const found = effectiveSettings(flags.kvTransferConfig, process.env);
      process.stdout.write(flags.json === true ? `${JSON.stringify(found)}\n` : inWords(found));
    });
}

function inWords({ settings, warnings }: EffectiveSettings): string {
  const sections = new Map<string, Setting[]>();
  for (const setting of settings)
    sections.set(setting.section, [...(sections.get(setting.section) ?? []), setting]);
  const lines = [...sections].flatMap(([title, rows]) => [
    title,
    ...table(
      ["setting", "value", "from"],
      rows.map(({ name, value, source, reason }) => [
        name,
        shown(value),
        reason === undefined ? source : `${source}: ${reason}`,
      ]),
    ),
    "",
  ]);
  const notes = warnings.map((warning) => `warning: ${formatWarning(warning)}`);
  return [...lines, ...notes, ...(notes.length === 0 ? [] : [""])].join("\n");
}

function shown(value: unknown): string {
  return value === null || value === undefined ? "-" : JSON.stringify(value);
}
