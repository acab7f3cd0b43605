/**
 * The printable characters by which byte-level BPE vocabularies write bytes: visible Latin-1 bytes stand for themselves, the
 * others, in order, for the characters from U+0100 on.
 */
export function byteLevelAlphabet(): ReadonlyMap<string, number> {
  const alphabet = new Map<string, number>();
  let next = 0x100;
  for (let byte = 0; byte < 256; byte++) {
    const visible =
      (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    alphabet.set(String.fromCodePoint(visible ? byte : next++), byte);
  }
  return alphabet;
}
