/** `npm run attack`: see scripts/attack.mjs. */
import { parseArgs } from "node:util";
import { attack, type Failure } from "./attack.ts";
import { TARGETS } from "./targets.ts";

const { values } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    seconds: { type: "string", default: "60" },
    seed: { type: "string", default: "1" },
    inputs: { type: "string" },
    target: { type: "string" },
  },
});
const names = TARGETS.map(({ name }) => name);
const chosen = TARGETS.filter(({ name }) => values.target === undefined || name === values.target);
const [seconds, seed, inputs] = [values.seconds, values.seed, values.inputs ?? "0"].map(Number);
if (chosen.length === 0 || !(seconds! > 0) || !(seed! >= 0) || !(inputs! >= 0)) {
  process.stderr.write(
    `--seconds, --seed and --inputs are numbers; --target is one of: ${names.join(", ")}\n`,
  );
  process.exit(2);
}
const show = ({ target, seed: at, problem, input }: Failure): void => {
  process.stderr.write(
    `${target}, seed ${at}: ${problem}\n  input: ${input}\n  again: npm run attack -- --target "${target}" --seed ${at} --inputs 1\n`,
  );
};
const report = await attack({
  targets: chosen,
  seconds: seconds!,
  seed: seed!,
  ...(inputs! > 0 ? { inputsMax: inputs! } : {}),
  nowMs: () => performance.now(),
  onFailure: show,
});
const { failed } = report;
if (values.json) process.stdout.write(`${JSON.stringify(report)}\n`);
else
  for (const [name, counts] of Object.entries(report.byTarget))
    process.stdout.write(`${name.padEnd(24)} ${counts.inputs} inputs, ${counts.failed} failed\n`);
process.stdout.write(`attack ${report.inputs} inputs, ${failed} failed\n`);
process.exitCode = failed > 0 ? 1 : 0;
