import { readSync } from "node:fs";
import { DOWNLOAD_AGAIN, modelInvalid } from "./gguf-errors.ts";
import type { GgufValue } from "./gguf-types.ts";

const WINDOW_BYTES = 1 << 20;
/** No sound file has longer ones; a damaged length must not make us reserve gigabytes. */
const STRING_BYTES_MAX = 1 << 24;
const ARRAY_ITEMS_MAX = 1 << 24;

/** Reads a GGUF header front to back through a window, so that the weights behind it are never read for it. */
export class GgufCursor {
  /** Offset in the file of the next byte. */
  offset = 0;
  private readonly file: string;
  private readonly descriptor: number;
  private readonly fileBytes: number;
  private window = Buffer.alloc(0);
  private windowStart = 0;

  constructor(file: string, descriptor: number, fileBytes: number) {
    this.file = file;
    this.descriptor = descriptor;
    this.fileBytes = fileBytes;
  }

  uint32(): number {
    return this.take(4, (window, at) => window.readUInt32LE(at));
  }

  /** A count, length or offset; throws MODEL_INVALID beyond 2^53, which only a damaged file has. */
  uint64(): number {
    const value = this.take(
      8,
      (window, at) => window.readUInt32LE(at) + window.readUInt32LE(at + 4) * 0x1_0000_0000,
    );
    if (!Number.isSafeInteger(value))
      throw modelInvalid(this.file, "a length in it is absurd", DOWNLOAD_AGAIN, value);
    return value;
  }

  text(): string {
    const length = this.uint64();
    if (length > STRING_BYTES_MAX)
      throw modelInvalid(this.file, "a text in it is absurdly long", DOWNLOAD_AGAIN, length);
    return this.take(length, (window, at) => window.toString("utf8", at, at + length));
  }

  /** A metadata value of the given GGUF value type. */
  value(type: number): GgufValue {
    switch (type) {
      case 0:
        return this.take(1, (window, at) => window.readUInt8(at));
      case 1:
        return this.take(1, (window, at) => window.readInt8(at));
      case 2:
        return this.take(2, (window, at) => window.readUInt16LE(at));
      case 3:
        return this.take(2, (window, at) => window.readInt16LE(at));
      case 4:
        return this.uint32();
      case 5:
        return this.take(4, (window, at) => window.readInt32LE(at));
      case 6:
        return this.take(4, (window, at) => window.readFloatLE(at));
      case 7:
        return this.take(1, (window, at) => window.readUInt8(at) !== 0);
      case 8:
        return this.text();
      case 9:
        return this.array();
      case 10:
        return this.take(8, (window, at) => Number(window.readBigUInt64LE(at)));
      case 11:
        return this.take(8, (window, at) => Number(window.readBigInt64LE(at)));
      case 12:
        return this.take(8, (window, at) => window.readDoubleLE(at));
      default:
        throw modelInvalid(this.file, "a metadata value has an unknown type", DOWNLOAD_AGAIN, type);
    }
  }

  private array(): readonly GgufValue[] {
    const type = this.uint32();
    const length = this.uint64();
    if (type === 9)
      throw modelInvalid(this.file, "a metadata value is an array of arrays", DOWNLOAD_AGAIN);
    if (length > ARRAY_ITEMS_MAX)
      throw modelInvalid(this.file, "an array in it is absurdly long", DOWNLOAD_AGAIN, length);
    // Each takes a byte at least, a text eight: a count beyond what is left is known to be wrong before anything is read.
    if (length * (type === 8 ? 8 : 1) > this.fileBytes - this.offset) {
      throw modelInvalid(this.file, "an array is longer than the file", DOWNLOAD_AGAIN, length);
    }
    const items: GgufValue[] = [];
    for (let index = 0; index < length; index++) items.push(this.value(type));
    return items;
  }

  private take<Result>(bytes: number, read: (window: Buffer, at: number) => Result): Result {
    if (this.offset + bytes > this.fileBytes) {
      throw modelInvalid(
        this.file,
        "the file ends in the middle of its header",
        DOWNLOAD_AGAIN,
        this.fileBytes,
      );
    }
    if (this.offset + bytes > this.windowStart + this.window.length) this.moveWindow(bytes);
    const result = read(this.window, this.offset - this.windowStart);
    this.offset += bytes;
    return result;
  }

  private moveWindow(bytesWanted: number): void {
    const length = Math.min(this.fileBytes - this.offset, Math.max(WINDOW_BYTES, bytesWanted));
    const window = Buffer.alloc(length);
    readFully(this.descriptor, window, this.offset, this.file);
    this.window = window;
    this.windowStart = this.offset;
  }
}

/** Fills `target` from the file; one read call may give less than was asked for, above 2 GiB always. */
export function readFully(
  descriptor: number,
  target: Uint8Array,
  offset: number,
  file: string,
): void {
  const READ_BYTES_MAX = 1 << 26;
  for (let done = 0; done < target.byteLength;) {
    const wanted = Math.min(READ_BYTES_MAX, target.byteLength - done);
    const read = readSync(descriptor, target, done, wanted, offset + done);
    if (read === 0)
      throw modelInvalid(file, "the file became shorter while it was read", DOWNLOAD_AGAIN);
    done += read;
  }
}
