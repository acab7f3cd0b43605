/**
 * vLLM's `--kv-events-config`, taken as it is: which events are published where. Values are converted as vLLM's checks convert them
 * ("yes" is true, "12" and 12.0 are 12), so that one text serves both.
 */
import { fail } from "../errors.ts";
import { asRecord, parseJsonRecord } from "./python-value.ts";
import { nearestName, shortName } from "./warnings.ts";
import type { ConfigWarning } from "./warnings.ts";

export interface KvEventsConfig {
  /** False: no event is made. */
  readonly enabled: boolean;
  /** null: events are made (for `takeEvents`) but not published. */
  readonly publisher: "null" | "zmq";
  readonly endpoint: string;
  /** Where subscribers ask for batches that they have missed; null: nowhere. */
  readonly replayEndpoint: string | null;
  /** Batches that are kept for that. */
  readonly bufferSteps: number;
  /** Messages that ZeroMQ holds for a slow subscriber before it loses some; 0: no limit. */
  readonly highWaterMark: number;
  /** Batches that wait to be sent. */
  readonly queueBatchesMax: number;
  readonly topic: string;
}

const KEYS = [
  "enable_kv_cache_events",
  "publisher",
  "endpoint",
  "replay_endpoint",
  "buffer_steps",
  "hwm",
  "max_queue_size",
  "topic",
];
const PATH = "kv_events_config";
/** The replay socket holds 2 * (buffer_steps + 1) messages, a 32-bit number. */
const BUFFER_STEPS_MAX = 2 ** 30 - 2;
const COUNT_MAX = 2 ** 31 - 1;

export interface ParsedKvEventsConfig {
  readonly config: KvEventsConfig;
  readonly warnings: readonly ConfigWarning[];
}

/**
 * Parses the configuration (JSON text or object; undefined or null: none, no events). Throws MooncakeKvError INVALID_VALUE or
 * INVALID_TYPE. vLLM takes a `max_queue_size` below 1 as "no bound", which is refused here.
 */
export function parseKvEventsConfig(given: unknown): ParsedKvEventsConfig {
  const record =
    given === undefined || given === null
      ? {}
      : typeof given === "string"
        ? parseJsonRecord(given, PATH)
        : asRecord(given, PATH);
  checkKeys(record);
  const enabled = truth(record, "enable_kv_cache_events");
  const config: KvEventsConfig = Object.freeze({
    enabled,
    publisher: publisherOf(record, enabled),
    endpoint: endpointOf(record, "endpoint") ?? "tcp://*:5557",
    replayEndpoint: endpointOf(record, "replay_endpoint"),
    bufferSteps: count(record, "buffer_steps", 10_000, 0, BUFFER_STEPS_MAX),
    highWaterMark: count(record, "hwm", 100_000, 0, COUNT_MAX),
    queueBatchesMax: count(record, "max_queue_size", 100_000, 1, COUNT_MAX),
    topic: text(record, "topic") ?? "",
  });
  return { config, warnings: warningsOf(config) };
}

function warningsOf(config: KvEventsConfig): ConfigWarning[] {
  if (config.publisher !== "zmq" || config.enabled) return [];
  return [
    {
      field: `${PATH}.publisher`,
      value: "zmq",
      problem: "nothing is published, because enable_kv_cache_events is false",
      remedy: 'Set "enable_kv_cache_events": true.',
    },
  ];
}

function checkKeys(record: Readonly<Record<string, unknown>>): void {
  for (const key of Object.keys(record)) {
    if (KEYS.includes(key)) continue;
    const nearest = nearestName(key, KEYS);
    const remedy =
      nearest === null ? `Remove it; known are ${KEYS.join(", ")}.` : `Did you mean "${nearest}"?`;
    fail(
      "INVALID_VALUE",
      `${PATH}.${shortName(key)}`,
      record[key],
      "is not a setting of KV events",
      remedy,
    );
  }
}

function publisherOf(
  record: Readonly<Record<string, unknown>>,
  enabled: boolean,
): KvEventsConfig["publisher"] {
  const value = record["publisher"];
  if (value === undefined) return enabled ? "zmq" : "null";
  if (value === "zmq" || value === "null") return value;
  const code = typeof value === "string" ? "INVALID_VALUE" : "INVALID_TYPE";
  return fail(code, `${PATH}.publisher`, value, "is not known", 'Use "zmq" or "null".');
}

function text(record: Readonly<Record<string, unknown>>, key: string): string | null {
  const value = record[key];
  if (value === undefined || (value === null && key === "replay_endpoint")) return null;
  if (typeof value === "string") return value;
  return fail("INVALID_TYPE", `${PATH}.${key}`, value, "must be a text", "Put it in quotes.");
}

function endpointOf(record: Readonly<Record<string, unknown>>, key: string): string | null {
  const value = text(record, key);
  if (value === null || /^(tcp|ipc|inproc):\/\/./.test(value)) return value;
  return fail(
    "INVALID_VALUE",
    `${PATH}.${key}`,
    value,
    "is no ZeroMQ address",
    'Write it as "tcp://*:5557", "tcp://host:5557", "ipc:///path" or "inproc://name".',
  );
}

/** What pydantic takes for a truth value. */
function truth(record: Readonly<Record<string, unknown>>, key: string): boolean {
  const value = record[key];
  if (value === undefined) return false;
  const word = typeof value === "string" ? value.toLowerCase() : value;
  if (word === true || word === 1 || inList(word, ["1", "on", "t", "true", "y", "yes"]))
    return true;
  if (word === false || word === 0 || inList(word, ["0", "off", "f", "false", "n", "no"]))
    return false;
  return fail(
    "INVALID_TYPE",
    `${PATH}.${key}`,
    value,
    "must be true or false",
    "Write true or false.",
  );
}
function inList(value: unknown, names: readonly string[]): boolean {
  return typeof value === "string" && names.includes(value);
}

/** What pydantic takes for a whole number, within bounds. */
function count(
  record: Readonly<Record<string, unknown>>,
  key: string,
  absent: number,
  least: number,
  most: number,
): number {
  const value = record[key];
  if (value === undefined) return absent;
  const number =
    typeof value === "boolean"
      ? Number(value)
      : typeof value === "string"
        ? numberOf(value.trim())
        : typeof value === "number"
          ? value
          : null;
  if (number !== null && Number.isInteger(number) && number >= least && number <= most)
    return number;
  return fail(
    number === null ? "INVALID_TYPE" : "INVALID_VALUE",
    `${PATH}.${key}`,
    value,
    `must be a whole number from ${least} to ${most}`,
    `Correct it or leave it out (default ${absent}).`,
  );
}
/** Digits, single underscores between them, and a fraction of zeros. */
function numberOf(value: string): number | null {
  return /^[+-]?\d+(_\d+)*(\.0*)?$/.test(value) ? Number(value.replaceAll("_", "")) : null;
}
