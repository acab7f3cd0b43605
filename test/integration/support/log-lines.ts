import type { Log } from "../../../src/actors/step.ts";

export interface LogLine {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly fields: object;
  readonly text: string;
}

/** A log that keeps its lines. */
export class LogLines implements Log {
  readonly lines: LogLine[] = [];

  debug(fields: object, text: string): void {
    this.lines.push({ level: "debug", fields, text });
  }
  info(fields: object, text: string): void {
    this.lines.push({ level: "info", fields, text });
  }
  warn(fields: object, text: string): void {
    this.lines.push({ level: "warn", fields, text });
  }
  error(fields: object, text: string): void {
    this.lines.push({ level: "error", fields, text });
  }

  count(text: string): number {
    return this.lines.filter((line) => line.text === text).length;
  }
}
