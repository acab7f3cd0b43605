import { closeSync, fstatSync } from "node:fs";
import { WrongFileKind, openRegularFile } from "../../config/file-kinds.ts";
import { MooncakeKvError } from "../../errors.ts";
import { dequantize } from "./dequantize.ts";
import { GgufCursor, readFully } from "./gguf-cursor.ts";
import { DOWNLOAD_AGAIN, modelInvalid, modelUnsupported } from "./gguf-errors.ts";
import { TENSOR_ENCODINGS, encodingName } from "./gguf-types.ts";
import type { GgufTensor, GgufValue } from "./gguf-types.ts";

const MAGIC = 0x46554747;
const MAGIC_SWAPPED = 0x47475546;
const NO_GGUF = "Give a GGUF file of a Llama-family model.";
const TENSORS_MAX = 100_000;
const DIMENSIONS_MAX = 4;

/**
 * An open GGUF file: metadata, tensor table, and tensors decoded to float32 on demand.
 *
 * Opening reads the header only and checks that every tensor lies inside the file. Throws MISSING (no such file),
 * MODEL_INVALID (no GGUF, truncated, damaged) or UNSUPPORTED (version, byte order, encoding).
 */
export class GgufFile {
  readonly path: string;
  readonly metadata = new Map<string, GgufValue>();
  readonly tensors = new Map<string, GgufTensor>();
  private readonly descriptor: number;
  readonly fileBytes: number;

  constructor(path: string) {
    this.path = path;
    this.descriptor = openModelFile(path);
    try {
      this.fileBytes = fstatSync(this.descriptor).size;
      this.readHeader();
    } catch (error) {
      closeSync(this.descriptor);
      throw error;
    }
  }

  close(): void {
    closeSync(this.descriptor);
  }

  /** All numbers of a tensor, fastest-running dimension first. Throws MODEL_INVALID when there is no such tensor. */
  readTensor(name: string): Float32Array {
    const tensor = this.tensors.get(name);
    if (tensor === undefined) {
      throw modelInvalid(
        this.path,
        `the tensor ${name} is missing`,
        "Give a complete Llama-family model.",
      );
    }
    try {
      const bytes = new Uint8Array(tensor.byteLength);
      readFully(this.descriptor, bytes, tensor.offset, this.path);
      return dequantize(tensor.typeNumber, bytes, tensor.elementCount);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      throw modelUnsupported(
        this.path,
        `the tensor ${name} does not fit the memory`,
        "Give a smaller model, or use a machine with more memory.",
        tensor.byteLength,
      );
    }
  }

  private readHeader(): void {
    const cursor = new GgufCursor(this.path, this.descriptor, this.fileBytes);
    if (this.fileBytes < 4) throw modelInvalid(this.path, "this is no GGUF file", NO_GGUF);
    const magic = cursor.uint32();
    if (magic === MAGIC_SWAPPED) {
      throw modelUnsupported(
        this.path,
        "the file is big-endian",
        "Give the little-endian variant of the model.",
      );
    }
    if (magic !== MAGIC) throw modelInvalid(this.path, "this is no GGUF file", NO_GGUF);
    const version = cursor.uint32();
    if (version !== 2 && version !== 3) {
      throw modelUnsupported(
        this.path,
        "only GGUF versions 2 and 3 can be read",
        "Convert the model anew.",
        version,
      );
    }
    const tensorCount = cursor.uint64();
    const metadataCount = cursor.uint64();
    if (tensorCount > TENSORS_MAX || metadataCount > TENSORS_MAX) {
      throw modelInvalid(this.path, "the header counts are absurd", DOWNLOAD_AGAIN, tensorCount);
    }
    for (let index = 0; index < metadataCount; index++) {
      const key = cursor.text();
      if (this.metadata.has(key)) {
        throw modelInvalid(this.path, `the metadata key ${key} stands there twice`, DOWNLOAD_AGAIN);
      }
      this.metadata.set(key, cursor.value(cursor.uint32()));
    }
    const found: Omit<GgufTensor, "encoding">[] = [];
    for (let index = 0; index < tensorCount; index++) found.push(this.readTensorEntry(cursor));
    const alignment = Number(this.metadata.get("general.alignment") ?? 32);
    if (!(Number.isInteger(alignment) && alignment > 0)) {
      throw modelInvalid(
        this.path,
        "general.alignment is no positive integer",
        DOWNLOAD_AGAIN,
        alignment,
      );
    }
    const dataStart = Math.ceil(cursor.offset / alignment) * alignment;
    for (const entry of found) this.addTensor(entry, dataStart);
  }

  private readTensorEntry(cursor: GgufCursor): Omit<GgufTensor, "encoding"> {
    const name = cursor.text();
    const dimensionCount = cursor.uint32();
    if (dimensionCount > DIMENSIONS_MAX) {
      throw modelInvalid(
        this.path,
        `the tensor ${name} has absurdly many dimensions`,
        DOWNLOAD_AGAIN,
        dimensionCount,
      );
    }
    const dimensions = Array.from({ length: dimensionCount }, () => cursor.uint64());
    const typeNumber = cursor.uint32();
    const elementCount = dimensions.reduce((product, size) => product * size, 1);
    return { name, dimensions, typeNumber, elementCount, offset: cursor.uint64(), byteLength: 0 };
  }

  private addTensor(entry: Omit<GgufTensor, "encoding">, dataStart: number): void {
    const encoding = TENSOR_ENCODINGS.get(entry.typeNumber);
    if (encoding === undefined) {
      throw modelUnsupported(
        this.path,
        `the tensor ${entry.name} has an encoding that cannot be read, type ${encodingName(entry.typeNumber)}`,
        `Give the model in one of ${[...TENSOR_ENCODINGS.values()].map((known) => known.name).join(", ")}.`,
      );
    }
    const blocks = entry.elementCount / encoding.elementsPerBlock;
    const byteLength = blocks * encoding.bytesPerBlock;
    const offset = dataStart + entry.offset;
    if (!Number.isSafeInteger(blocks)) {
      throw modelInvalid(
        this.path,
        `the size of the tensor ${entry.name} is no whole number of blocks`,
        DOWNLOAD_AGAIN,
      );
    }
    if (offset + byteLength > this.fileBytes) {
      const problem = `the file is truncated: the tensor ${entry.name} ends at byte ${offset + byteLength}`;
      throw modelInvalid(this.path, problem, DOWNLOAD_AGAIN, this.fileBytes);
    }
    if (this.tensors.has(entry.name)) {
      throw modelInvalid(this.path, `the tensor ${entry.name} stands there twice`, DOWNLOAD_AGAIN);
    }
    this.tensors.set(entry.name, { ...entry, encoding, offset, byteLength });
  }
}

function openModelFile(path: string): number {
  try {
    return openRegularFile(path);
  } catch (error) {
    if (error instanceof WrongFileKind) throw modelInvalid(path, error.message, NO_GGUF);
    throw new MooncakeKvError({
      code: "MISSING",
      field: path,
      problem: "the model file cannot be opened",
      remedy: "Check the path and that you may read it.",
      cause: error,
    });
  }
}
