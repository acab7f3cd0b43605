/**
 * vLLM's `--kv-events-config`, taken as it is: which events are published where. Values are converted as vLLM's checks convert them
 * ("yes" is true, "12" and 12.0 are 12), so that one text serves both. Two things are ours: `bind_endpoint`, and that without an address
 * it is loopback that is bound; vLLM binds every address then, and events hold the tokens of all prompts.
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
  /** Binds `endpoint` whatever it is; false: vLLM's rule says whether it is bound or connected to (`isBound`). */
  readonly bind: boolean;
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
  "bind_endpoint",
  "replay_endpoint",
  "buffer_steps",
  "hwm",
  "max_queue_size",
  "topic",
];
const PATH = "kv_events_config";
const DEFAULT_ENDPOINT = "tcp://127.0.0.1:5557";
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
  const [endpoint, bindEndpoint] = [
    endpointOf(record, "endpoint"),
    endpointOf(record, "bind_endpoint"),
  ];
  if (endpoint !== null && bindEndpoint !== null)
    fail(
      "INVALID_VALUE",
      `${PATH}.bind_endpoint`,
      bindEndpoint,
      "does not go with endpoint",
      "Leave endpoint out: bind_endpoint is bound as it is given.",
    );
  const config: KvEventsConfig = Object.freeze({
    enabled,
    publisher: publisherOf(record, enabled),
    endpoint: bindEndpoint ?? endpoint ?? DEFAULT_ENDPOINT,
    bind: endpoint === null,
    replayEndpoint: endpointOf(record, "replay_endpoint"),
    bufferSteps: count(record, "buffer_steps", 10_000, 0, BUFFER_STEPS_MAX),
    highWaterMark: count(record, "hwm", 100_000, 0, COUNT_MAX),
    queueBatchesMax: count(record, "max_queue_size", 100_000, 1, COUNT_MAX),
    topic: text(record, "topic") ?? "",
  });
  return { config, warnings: warningsOf(config) };
}

/** vLLM's rule: a publisher binds wildcard, ipc and inproc addresses, and connects to others (a collector that many publish to). */
export function isBound(endpoint: string): boolean {
  return endpoint.includes("*") || endpoint.includes("::") || /^(ipc|inproc):/.test(endpoint);
}

/** Every address of the host. */
const WILDCARD = /^tcp:\/\/(\*|0\.0\.0\.0|\[?::\]?|\[::0\]):/;
/** Where no collector of another machine is. */
const LOOPBACK = /^tcp:\/\/(127\.\d+\.\d+\.\d+|localhost|0\.0\.0\.0):/;

function warningsOf(config: KvEventsConfig): ConfigWarning[] {
  const { endpoint, replayEndpoint } = config;
  if (config.publisher !== "zmq") return [];
  if (!config.enabled)
    return [
      {
        field: `${PATH}.publisher`,
        value: "zmq",
        problem: "nothing is published, because enable_kv_cache_events is false",
        remedy: 'Set "enable_kv_cache_events": true.',
      },
    ];
  const bound = config.bind || isBound(endpoint);
  const warnings = [
    bound ? ofBound("endpoint", endpoint, "bind_endpoint") : ofConnected(endpoint),
    replayEndpoint === null ? null : ofBound("replay_endpoint", replayEndpoint, "replay_endpoint"),
  ];
  return warnings.filter((warning) => warning !== null);
}

function ofBound(key: string, value: string, ours: string): ConfigWarning | null {
  if (!WILDCARD.test(value)) return null;
  return {
    field: `${PATH}.${key}`,
    value,
    problem:
      "whoever reaches any address of this host can read the tokens of all prompts there, without a password",
    remedy: `Name one address that only subscribers reach, for example "${ours}": "tcp://127.0.0.1:${value.slice(value.lastIndexOf(":") + 1)}".`,
  };
}

function ofConnected(value: string): ConfigWarning | null {
  if (!LOOPBACK.test(value)) return null;
  return {
    field: `${PATH}.endpoint`,
    value,
    problem:
      "is connected to, not bound, as in vLLM: only a collector that is bound there gets events, and no subscriber can connect",
    remedy: `To let subscribers connect, write "bind_endpoint" instead of "endpoint"; with a collector there is nothing to do.`,
  };
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
    'Write it as "tcp://127.0.0.1:5557", "tcp://host:5557", "tcp://*:5557", "ipc:///path" or "inproc://name".',
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
