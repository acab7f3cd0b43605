import { isRecord } from "../config/json-text.ts";
import { MooncakeKvError } from "../errors.ts";
import type { HostPort } from "./ports.ts";

/** A piece of memory that a member gives to the pool, as the master tells it. */
export interface PoolSegment {
  /** What MOONCAKE_PREFERRED_SEGMENT names. */
  readonly name: string;
  /** The member that owns it. */
  readonly clientId: string;
  readonly protocol: string;
  readonly status: string;
  readonly bytesUsed: number;
  readonly bytesMax: number;
}

/** Pages and key lists above this are refused, so that a full pool cannot fill this process. */
const ANSWER_BYTES_MAX = 512 * 1024 * 1024;

/**
 * The master's HTTP interface (its metrics port): health, members, keys and counters. Read only. Every call has a deadline
 * and throws TIMEOUT, CLOSED or INVALID_VALUE, naming the address.
 */
export class MasterAdmin {
  readonly #base: string;
  readonly #timeoutMs: number;

  constructor(address: HostPort, timeoutMs = 5_000) {
    const host = address.host.includes(":") ? `[${address.host}]` : address.host;
    this.#base = `http://${host}:${address.port}`;
    this.#timeoutMs = timeoutMs;
  }

  /** Whether the master serves requests; false too when nobody answers. */
  async isServing(): Promise<boolean> {
    try {
      const health: unknown = JSON.parse(await this.#get("/health"));
      return isRecord(health) && health["service_ready"] === true;
    } catch {
      return false;
    }
  }

  async segments(): Promise<PoolSegment[]> {
    const answer = this.#json("/get_segments_detail", await this.#get("/get_segments_detail"));
    const list = isRecord(answer) ? answer["segments"] : undefined;
    if (!Array.isArray(list)) throw this.#strange("/get_segments_detail", answer);
    return list.filter(isRecord).map((segment) => ({
      name: text(segment["segment_name"]),
      clientId: text(segment["client_id"]),
      protocol: text(segment["protocol"]),
      status: text(segment["status"]),
      bytesUsed: count(segment["allocator_used_bytes"]),
      bytesMax: count(segment["size_bytes"]),
    }));
  }

  /** All keys of the default tenant, in the master's order. A key with a line break cannot be told from two. */
  async keys(): Promise<string[]> {
    return (await this.#get("/get_all_keys")).split("\n").filter((key) => key !== "");
  }

  /** Counters and gauges without labels, by name. */
  async metrics(): Promise<ReadonlyMap<string, number>> {
    const values = new Map<string, number>();
    for (const line of (await this.#get("/metrics")).split("\n")) {
      const match = /^([a-z_]+) (\S+)$/.exec(line);
      if (match?.[1] !== undefined) values.set(match[1], Number(match[2]));
    }
    return values;
  }

  async #get(path: string): Promise<string> {
    let response: Response;
    try {
      response = await fetch(this.#base + path, { signal: AbortSignal.timeout(this.#timeoutMs) });
      const body = await this.#bodyOf(path, response);
      if (!response.ok) throw this.#strange(path, `${response.status} ${body.slice(0, 80)}`);
      return body;
    } catch (cause) {
      if (cause instanceof MooncakeKvError) throw cause;
      const timedOut = cause instanceof Error && cause.name === "TimeoutError";
      throw new MooncakeKvError({
        code: timedOut ? "TIMEOUT" : "CLOSED",
        field: "the master's metrics address",
        value: this.#base,
        problem: timedOut ? `no answer within ${this.#timeoutMs} ms` : "nobody answers there",
        remedy:
          "Start the master (mooncake-kv pool start), or name its metrics port with --metrics HOST:PORT.",
        cause,
      });
    }
  }

  /** Whatever its head says of its length. */
  async #bodyOf(path: string, response: Response): Promise<string> {
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    for await (const chunk of response.body ?? []) {
      chunks.push(chunk);
      bytes += chunk.byteLength;
      if (bytes > ANSWER_BYTES_MAX)
        throw this.#strange(path, `more than ${ANSWER_BYTES_MAX} bytes`);
    }
    return Buffer.concat(chunks, bytes).toString("utf8");
  }

  #json(path: string, body: string): unknown {
    try {
      return JSON.parse(body);
    } catch {
      throw this.#strange(path, body.slice(0, 80));
    }
  }

  #strange(path: string, value: unknown): MooncakeKvError {
    return new MooncakeKvError({
      code: "INVALID_VALUE",
      field: this.#base + path,
      value,
      problem: "this is not what a Mooncake master answers",
      remedy:
        "Check that the address is the master's metrics port (9003 unless it was started otherwise).",
    });
  }
}

/** Numbers, and digits in quotes. */
function count(value: unknown): number {
  return typeof value === "number" || typeof value === "string" ? Number(value) : Number.NaN;
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
