import type { WriteStream } from "node:tty";

/** One line of progress on a terminal, rewritten in place; single lines, only when the text changes, elsewhere. */
export class ProgressLine {
  readonly #stream: WriteStream;
  #last = "";

  constructor(stream: WriteStream) {
    this.#stream = stream;
  }

  show(text: string, fraction?: number): void {
    const percent = fraction === undefined ? "" : ` ${Math.floor(fraction * 100)} %`;
    if (this.#stream.isTTY) this.#stream.write(`\r\u001b[K${text}${percent}`);
    else if (text !== this.#last) this.#stream.write(`${text}\n`);
    this.#last = text;
  }

  clear(): void {
    if (this.#stream.isTTY && this.#last !== "") this.#stream.write("\r\u001b[K");
  }
}
