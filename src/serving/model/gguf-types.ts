/** Encodings of tensor data that can be read: elements and bytes of one block, by ggml's type number. */
export interface TensorEncoding {
  readonly name: string;
  readonly elementsPerBlock: number;
  readonly bytesPerBlock: number;
}

export const TENSOR_ENCODINGS: ReadonlyMap<number, TensorEncoding> = new Map([
  [0, { name: "F32", elementsPerBlock: 1, bytesPerBlock: 4 }],
  [1, { name: "F16", elementsPerBlock: 1, bytesPerBlock: 2 }],
  [2, { name: "Q4_0", elementsPerBlock: 32, bytesPerBlock: 18 }],
  [3, { name: "Q4_1", elementsPerBlock: 32, bytesPerBlock: 20 }],
  [6, { name: "Q5_0", elementsPerBlock: 32, bytesPerBlock: 22 }],
  [7, { name: "Q5_1", elementsPerBlock: 32, bytesPerBlock: 24 }],
  [8, { name: "Q8_0", elementsPerBlock: 32, bytesPerBlock: 34 }],
  [12, { name: "Q4_K", elementsPerBlock: 256, bytesPerBlock: 144 }],
  [13, { name: "Q5_K", elementsPerBlock: 256, bytesPerBlock: 176 }],
  [14, { name: "Q6_K", elementsPerBlock: 256, bytesPerBlock: 210 }],
  [30, { name: "BF16", elementsPerBlock: 1, bytesPerBlock: 2 }],
]);

export interface GgufTensor {
  readonly name: string;
  /** Fastest-running dimension first, as in the file. */
  readonly dimensions: readonly number[];
  readonly typeNumber: number;
  readonly encoding: TensorEncoding;
  readonly elementCount: number;
  /** Offset in the file. */
  readonly offset: number;
  readonly byteLength: number;
}

/** A metadata value; 64-bit integers are numbers here (those beyond 2^53 lose low digits, no key that is read has such). */
export type GgufValue = number | boolean | string | readonly GgufValue[];

/** Name of a type number for messages, known or not. */
export function encodingName(typeNumber: number): string {
  return TENSOR_ENCODINGS.get(typeNumber)?.name ?? `number ${typeNumber}`;
}
