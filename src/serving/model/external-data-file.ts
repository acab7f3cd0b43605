import { closeSync, openSync, writeSync } from "node:fs";
import { basename } from "node:path";
import type { ExternalData } from "./onnx-writer.ts";

/** Weights start at page borders, so that the runtime can map them. */
const ALIGNMENT_BYTES = 4096;
/** Smaller tensors stay inside the graph file. */
const EXTERNAL_BYTES_MIN = 4096;
const WRITE_BYTES_MAX = 1 << 26;

/** The file beside an ONNX graph that holds its large weights. */
export class ExternalDataFile {
  /** Bytes written so far. */
  length = 0;
  private readonly descriptor: number;
  private readonly location: string;

  constructor(path: string) {
    this.descriptor = openSync(path, "w");
    this.location = basename(path);
  }

  /** Writes a weight and says where it lies; undefined when it is small enough for the graph file. */
  append(bytes: Uint8Array): ExternalData | undefined {
    if (bytes.byteLength < EXTERNAL_BYTES_MIN) return undefined;
    const padding = (ALIGNMENT_BYTES - (this.length % ALIGNMENT_BYTES)) % ALIGNMENT_BYTES;
    if (padding > 0) this.write(new Uint8Array(padding));
    const offset = this.length;
    this.write(bytes);
    return { location: this.location, offset, length: bytes.byteLength };
  }

  close(): void {
    closeSync(this.descriptor);
  }

  private write(bytes: Uint8Array): void {
    for (let done = 0; done < bytes.byteLength;) {
      const wanted = Math.min(WRITE_BYTES_MAX, bytes.byteLength - done);
      done += writeSync(this.descriptor, bytes, done, wanted);
    }
    this.length += bytes.byteLength;
  }
}
