const ESCAPE = /\\(?:([0-7]{1,3})|x([\da-fA-F]{2})|u([\da-fA-F]{4})|U([\da-fA-F]{8})|([^]))/gu;
const SIMPLE: Readonly<Record<string, string>> = {
  "\n": "",
  "\\": "\\",
  "'": "'",
  '"': '"',
  a: "\x07",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
};

/** The text of a string literal, by Python's rules: an unknown escape stays as it is written. */
export function unescapeString(written: string): string {
  return written.replaceAll(
    ESCAPE,
    (
      whole,
      octal: string | undefined,
      byte: string | undefined,
      short: string | undefined,
      long: string | undefined,
      other: string | undefined,
    ) => {
      if (octal !== undefined) return String.fromCodePoint(Number.parseInt(octal, 8));
      const hex = byte ?? short ?? long;
      if (hex === undefined) return SIMPLE[other ?? ""] ?? whole;
      const point = Number.parseInt(hex, 16);
      return point <= 0x10ffff ? String.fromCodePoint(point) : whole;
    },
  );
}
