import { TemplateFault } from "./template-errors.ts";

/** Names that are values. */
export const CONSTANTS: ReadonlyMap<string, boolean | null> = new Map([
  ["true", true],
  ["True", true],
  ["false", false],
  ["False", false],
  ["none", null],
  ["None", null],
]);

/** Throws TemplateFault beyond what a number holds exactly. */
export function integerOf(written: string, line: number): number {
  const value = Number(written);
  if (Number.isSafeInteger(value)) return value;
  throw new TemplateFault(`line ${line}: the number ${written} is too large`);
}
