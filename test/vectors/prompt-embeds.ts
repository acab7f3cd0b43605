/** The prompt embeddings of the golden vectors: values (i mod 128) / 64, row-major, little-endian, in three element types. */

export function embedsOf(
  shape: readonly [number, number],
  dtype: string,
): { bytes: Uint8Array; rowBytes: number } {
  const elements = shape[0] * shape[1];
  const width = dtype === "float32" ? 4 : 2;
  const bytes = new Uint8Array(elements * width);
  const view = new DataView(bytes.buffer);
  for (let index = 0; index < elements; index++) {
    const value = (index % 128) / 64;
    if (dtype === "float32") view.setFloat32(index * 4, value, true);
    else if (dtype === "float16") view.setUint16(index * 2, float16Bits(value), true);
    else if (dtype === "bfloat16") view.setUint16(index * 2, float32Bits(value) >>> 16, true);
    else throw new Error(`unknown element type ${dtype}`);
  }
  return { bytes, rowBytes: shape[1] * width };
}

function float32Bits(value: number): number {
  const view = new DataView(new ArrayBuffer(4));
  view.setFloat32(0, value);
  return view.getUint32(0);
}

/** Exact for these values: multiples of 1/64 below 2 have at most 7 significant bits and no small exponent. */
function float16Bits(value: number): number {
  if (value === 0) return 0;
  const bits = float32Bits(value);
  const exponent = ((bits >>> 23) & 0xff) - 127 + 15;
  return (exponent << 10) | ((bits >>> 13) & 0x3ff);
}
