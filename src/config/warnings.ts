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
  const shown = warning.value === undefined ? "" : ` (got ${JSON.stringify(warning.value)})`;
  return `${warning.field}: ${warning.problem}${shown}. ${warning.remedy}`;
}

/** A warning for each key of `given` that is not in `known`, naming the nearest known key. `path` is put before the key. */
export function unknownKeyWarnings(
  given: Readonly<Record<string, unknown>>,
  known: readonly string[],
  path: string,
): ConfigWarning[] {
  const warnings: ConfigWarning[] = [];
  for (const key of Object.keys(given)) {
    if (known.includes(key)) continue;
    const nearest = nearestName(key, known);
    warnings.push({
      field: path + key,
      value: given[key],
      problem: "this setting is not known and has no effect",
      remedy:
        nearest === null
          ? `Remove it; known are ${known.join(", ")}.`
          : `Did you mean "${nearest}"? Rename or remove it.`,
    });
  }
  return warnings;
}

/** The known name that a typing error most likely meant, or null when none is near. */
export function nearestName(name: string, known: readonly string[]): string | null {
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
