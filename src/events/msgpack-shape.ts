/**
 * Looks through a msgpack text before it is decoded: a decoder makes room for as many elements as a header claims, so that a few
 * bytes would take gigabytes, and what is nested deeply breaks whoever walks through it.
 */
const DEPTH_MAX = 16;
const MALFORMED = "holds fewer elements than it claims";

/** What is wrong with its shape, for a person; null: every element that is claimed has its bytes. One pass over the headers. */
export function msgpackProblem(bytes: Uint8Array): string | null {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  /** Elements that are still to come, by depth; all together take a byte each at least. */
  const open: number[] = [1];
  let [at, pending] = [0, 1];
  while (pending > 0) {
    if (pending > bytes.length - at) return MALFORMED;
    const header = headerAt(view, at);
    if (header === null) return MALFORMED;
    at += header.bytes;
    pending += header.elements - 1;
    open[open.length - 1]!--;
    if (header.elements > 0 && open.push(header.elements) > DEPTH_MAX + 1)
      return `holds more than ${DEPTH_MAX} lists or maps inside each other`;
    while (open.length > 1 && open.at(-1) === 0) open.pop();
  }
  return null;
}

interface Header {
  /** With what belongs to it, but without its elements. */
  readonly bytes: number;
  readonly elements: number;
}

/** null: it does not fit. */
function headerAt(view: DataView, at: number): Header | null {
  const first = view.getUint8(at);
  const lengthBytes = LENGTH_BYTES[first - TABLES_FROM] ?? 0;
  if (at + 1 + lengthBytes > view.byteLength) return null;
  const length =
    lengthBytes === 4
      ? view.getUint32(at + 1)
      : lengthBytes === 2
        ? view.getUint16(at + 1)
        : lengthBytes === 1
          ? view.getUint8(at + 1)
          : 0;
  const own = 1 + lengthBytes;
  if (first >= 0x80 && first <= 0x8f) return { bytes: 1, elements: 2 * (first & 0xf) };
  if (first >= 0x90 && first <= 0x9f) return { bytes: 1, elements: first & 0xf };
  if (first >= 0xa0 && first <= 0xbf) return { bytes: 1 + (first & 0x1f), elements: 0 };
  if (first >= 0xdc && first <= 0xdf)
    return { bytes: own, elements: first >= 0xde ? 2 * length : length };
  return { bytes: own + length + (FIXED_BYTES[first - TABLES_FROM] ?? 0), elements: 0 };
}

/** Both by the first byte, from here on. */
const TABLES_FROM = 0xc4;
/** bin, ext, str, array, map: how many bytes say how long they are. */
const LENGTH_BYTES = "1241240000000000000001242424".split("").map(Number);
/** ext (its type), floats, integers, fixext: bytes of a length that the header alone tells. */
const FIXED_BYTES = "0,0,0,1,1,1,4,8,1,2,4,8,1,2,4,8,2,3,5,9,17".split(",").map(Number);
