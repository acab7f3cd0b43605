import { parseArgs } from "node:util";
import { StepFailure } from "./steps.mjs";

/**
 * Arguments of a script, checked before it does anything: a flag that nobody knows must not cost a set-up first. `options` as
 * parseArgs takes them; throws StepFailure with `usage` for anything else.
 */
export function readArguments(args, options, usage, { positionals = false } = {}) {
  try {
    return parseArgs({ args, options, allowPositionals: positionals });
  } catch (error) {
    // Node's text goes on about escaping after the first sentence.
    throw new StepFailure(`${error.message.split(/\. /)[0]}. Known: ${usage}`);
  }
}
