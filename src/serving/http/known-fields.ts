import { nearestName, shortName } from "../../config/warnings.ts";
import { badParameter } from "./errors.ts";

/** Fields of one object inside a body. */
export interface KnownFields {
  /** Fields that are read. */
  readonly read: readonly string[];
  /** Fields of OpenAI's or vLLM's API that change no answer here: taken, and told. */
  readonly ignored: readonly string[];
}

/** Is told a field that was taken without effect, such as "messages[].name". */
export type IgnoredField = (field: string) => void;

/**
 * Throws 400 for the first field that nobody knows, naming the nearest known one: a typing error must not look like success.
 * `at`: path of the object, for the error; `kind`: the same without numbers, for what is told.
 */
export function checkFields(
  value: object,
  known: KnownFields,
  paths: { readonly at: string; readonly kind: string },
  ignored: IgnoredField,
): void {
  for (const name in value) {
    if (known.read.includes(name)) continue;
    if (!known.ignored.includes(name)) throw unknownField(`${paths.at}.`, name, known.read);
    const given = (value as Readonly<Record<string, unknown>>)[name];
    if (given !== null) ignored(`${paths.kind}.${name}`);
  }
}

/** 400 for a field or query parameter that nobody knows. `path`: what stands before its name. */
export function unknownField(path: string, name: string, known: readonly string[]): Error {
  const nearest = nearestName(name, known);
  const remedy = nearest === null ? "Leave it out." : `Did you mean '${nearest}'?`;
  const problem = `is no parameter of this API. ${remedy}`;
  return badParameter(path + shortName(name), problem, "unknown_parameter");
}
