import { readPoolStats } from "../../pool/stats.ts";
import type { PoolStats, PoolUse } from "../../pool/stats.ts";
import { table } from "../table.ts";
import { choosePool } from "./target.ts";
import type { TargetFlags } from "./target.ts";

export async function stats(flags: TargetFlags & { readonly json?: boolean }): Promise<void> {
  const target = choosePool(flags);
  const read = await readPoolStats(target.admin, () => target.client());
  const master = target.store.masterServerAddress;
  process.stdout.write(
    flags.json === true ? `${JSON.stringify({ master, ...read })}\n` : inWords(master, read),
  );
}

function inWords(master: string, read: PoolStats): string {
  const lines = [
    `master   ${master}`,
    `clients  ${read.activeClients}`,
    `keys     ${read.keys}`,
    `memory   ${use(read.memory)}`,
    `disk     ${use(read.disk)}`,
    "",
    ...section(
      "members",
      ["segment", "protocol", "status", "used", "of"],
      read.members.map((each) => [
        each.name,
        each.protocol,
        each.status,
        size(each.bytesUsed),
        size(each.bytesMax),
      ]),
    ),
    ...section(
      "keys by prefix or model",
      ["begins with", "keys"],
      Object.entries(read.keysByFirstPart).map(([part, count]) => [`${part}@`, String(count)]),
    ),
    ...section(
      "identities",
      ["key", "value"],
      read.identities.map(({ key, value }) => [key, JSON.stringify(value)]),
    ),
  ];
  if (read.identitiesProblem !== null)
    lines.push(`identities not read: ${read.identitiesProblem}`, "");
  return lines.join("\n");
}

function section(
  title: string,
  head: readonly string[],
  rows: readonly (readonly string[])[],
): string[] {
  return rows.length === 0 ? [`${title}: none`, ""] : [title, ...table(head, rows), ""];
}

function use({ bytesUsed, bytesMax }: PoolUse): string {
  const percent = bytesMax === 0 ? 0 : (bytesUsed / bytesMax) * 100;
  return `${size(bytesUsed)} of ${size(bytesMax)} (${percent.toFixed(1)} %)`;
}

/** Powers of 1024, as the settings take them. */
function size(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let [value, unit] = [bytes, 0];
  for (; value >= 1024 && unit < units.length - 1; unit++) value /= 1024;
  return `${Number(value.toFixed(1))} ${units[unit]}`;
}
