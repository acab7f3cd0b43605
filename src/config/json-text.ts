/** What a JSON text may hold; looked at before it is parsed, so that a small text cannot become a large or deep value. */
export interface JsonLimits {
  /** Lists and objects inside each other. */
  readonly depthMax: number;
  /** Lists and objects in all. */
  readonly containersMax: number;
  /** Named fields in all. */
  readonly fieldsMax: number;
}

export const JSON_LIMITS: JsonLimits = {
  depthMax: 64,
  containersMax: 65_536,
  fieldsMax: 65_536,
};

/** The first limit that a text goes beyond, in words; `field`: the outermost object's field in which it does, if any. */
export interface JsonExcess {
  readonly problem: string;
  readonly field: string | null;
}

const QUOTE = 0x22;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const FIELD_CHARACTERS_MAX = 100;

/**
 * One pass over the characters, about 2 ms a megabyte. Null when the text keeps the limits. It does not say whether the text is
 * JSON: parse it afterwards.
 */
export function jsonExcess(text: string, limits: JsonLimits = JSON_LIMITS): JsonExcess | null {
  let [depth, containers, fields] = [0, 0, 0];
  // Borders of the last string, and of the last name of a field of the outermost object.
  let [from, to, nameFrom, nameTo] = [0, 0, 0, 0];
  const excess = (problem: string): JsonExcess => ({
    problem,
    field: nameTo === 0 ? null : fieldName(text, nameFrom, nameTo),
  });
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      from = at;
      at = stringEnd(text, at + 1);
      to = at + 1;
    } else if (code === COLON) {
      if (depth === 1) [nameFrom, nameTo] = [from, to];
      if (++fields > limits.fieldsMax) return excess(`holds more than ${limits.fieldsMax} fields`);
    } else if (code === 0x5b || code === 0x7b) {
      if (++depth > limits.depthMax)
        return excess(`holds more than ${limits.depthMax} lists or objects inside each other`);
      if (++containers > limits.containersMax)
        return excess(`holds more than ${limits.containersMax} lists and objects`);
    } else if (code === 0x5d || code === 0x7d) depth--;
  }
  return null;
}

/** Where the string ends that begins before `at`: its closing quote, or the end of the text. */
function stringEnd(text: string, at: number): number {
  for (; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) return at;
    if (code === BACKSLASH) at++;
  }
  return text.length;
}

function fieldName(text: string, from: number, to: number): string {
  const quoted = text.slice(from, to);
  if (quoted.length > FIELD_CHARACTERS_MAX) return `${quoted.slice(1, FIELD_CHARACTERS_MAX)}...`;
  try {
    return String(JSON.parse(quoted));
  } catch {
    return quoted;
  }
}

/** What JSON calls an object: neither null nor a list. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
