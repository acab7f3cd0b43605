import { textOf, represent } from "./text-of.ts";
import { type Arguments, type Value, fault } from "./values.ts";

const FIELD = /\{\{|\}\}|\{([^{}]*)\}|[{}]/gu;

/** Python's `text.format(...)` with plain fields: `{}`, `{0}`, `{name}`, `!r`. Throws TemplateFault for other ones. */
export function formatBraces(text: string, given: Arguments): string {
  let next = 0;
  return text.replaceAll(FIELD, (whole, field: string | undefined) => {
    if (whole === "{{" || whole === "}}") return whole[0]!;
    if (field === undefined) throw fault(`single '${whole}' encountered in format string`);
    const [, name = "", conversion] = /^([^!:.[]*)(?:!([sr]))?$/u.exec(field) ?? [
      undefined,
      undefined,
    ];
    if (!/^[^!:.[]*(?:![sr])?$/u.test(field))
      throw fault(`the format field {${field}} is not built`);
    const value: Value | undefined =
      name === ""
        ? given.positional[next++]
        : /^\d+$/.test(name)
          ? given.positional[Number(name)]
          : given.keywords.get(name);
    if (value === undefined) throw fault(`nothing for the format field {${field}}`);
    return conversion === "r" ? represent(value) : textOf(value);
  });
}
