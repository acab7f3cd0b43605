// `npm run check`: types, lint, format, house rules.
import { CHECKS } from "./lib/checks.mjs";
import { runMain, runStep } from "./lib/steps.mjs";
import { vitestSuite } from "./lib/suites.mjs";

await runMain(async () => {
  let failed = 0;
  for (const { title, args } of CHECKS) {
    const { code, output } = await runStep(title, process.execPath, args, { timeoutSeconds: 180, allowFailure: true });
    if (code !== 0) {
      failed++;
      process.stderr.write(output);
    }
  }
  const house = await vitestSuite("house", 120);
  if (house.failed > 0) process.stderr.write(house.output);
  process.exitCode = failed + house.failed > 0 ? 1 : 0;
});
