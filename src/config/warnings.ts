import { showValue } from "../errors.ts";

/**
 * What a configuration contains that is accepted but probably not meant. Warnings are data: the caller logs them.
 */
export interface ConfigWarning {
  readonly field: string;
  readonly value: unknown;
  readonly problem: string;
  readonly remedy: string;
}

/** One line for the log. */
export function formatWarning(warning: ConfigWarning): string {
  const shown = warning.value === undefined ? "" : ` (got ${showValue(warning.value)})`;
  return `${warning.field}: ${warning.problem}${shown}. ${warning.remedy}`;
}

/** Unknown keys that are warned of one by one. */
const UNKNOWN_KEYS_MAX = 16;
/** No name that anybody knows is longer. */
const NAME_CHARACTERS_MAX = 80;

/**
 * A warning for each key of `given` that is not in `known`, naming the nearest known key; of very many the last one tells the
 * number. `path` is put before the key.
 */
export function unknownKeyWarnings(
  given: Readonly<Record<string, unknown>>,
  known: readonly string[],
  path: string,
): ConfigWarning[] {
  const warnings: ConfigWarning[] = [];
  const unknown = Object.keys(given).filter((key) => !known.includes(key));
  for (const key of unknown.slice(0, UNKNOWN_KEYS_MAX)) {
    const nearest = nearestName(key, known);
    warnings.push({
      field: path + shortName(key),
      value: given[key],
      problem: "this setting is not known and has no effect",
      remedy:
        nearest === null
          ? `Remove it; known are ${known.join(", ")}.`
          : `Did you mean "${nearest}"? Rename or remove it.`,
    });
  }
  const more = unknown.length - UNKNOWN_KEYS_MAX;
  if (more > 0) {
    warnings.push({
      field: path + shortName(unknown[UNKNOWN_KEYS_MAX] ?? ""),
      value: undefined,
      problem: `this setting and ${more - 1} more are not known and have no effect`,
      remedy: `Remove them; known are ${known.join(", ")}.`,
    });
  }
  return warnings;
}

/** A name as an error shows it, whatever its length. */
export function shortName(name: string): string {
  if (name === "") return "(empty name)";
  return name.length > NAME_CHARACTERS_MAX ? `${name.slice(0, NAME_CHARACTERS_MAX)}...` : name;
}

/** The known name that a typing error most likely meant, or null when none is near. */
export function nearestName(name: string, known: readonly string[]): string | null {
  if (name.length > NAME_CHARACTERS_MAX) return null;
  let best: string | null = null;
  let bestDistance = Number.POSITIVE_INFINITY;
  for (const candidate of known) {
    const distance = editDistance(fold(name), fold(candidate));
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  // More than a third of the letters wrong is another word, not a typing error.
  return bestDistance <= Math.max(2, Math.floor(name.length / 3)) ? best : null;
}

/** camelCase and dashes are how people most often miss a snake_case name. */
function fold(name: string): string {
  return name
    .replace(/([a-z0-9])([A-Z])/g, "$1_$2")
    .replace(/-/g, "_")
    .toLowerCase();
}

/** Levenshtein distance, one row at a time. */
function editDistance(left: string, right: string): number {
  let previous = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let i = 1; i <= left.length; i++) {
    const row = [i];
    for (let j = 1; j <= right.length; j++) {
      const replace = (previous[j - 1] ?? 0) + (left[i - 1] === right[j - 1] ? 0 : 1);
      row.push(Math.min(replace, (previous[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1));
    }
    previous = row;
  }
  return previous[right.length] ?? left.length;
}
