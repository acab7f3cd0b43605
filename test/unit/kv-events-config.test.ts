/**
 * Goal: `--kv-events-config` means what it means in vLLM, and what is wrong with it is said.
 * Method: texts with the results that vLLM's class (a pydantic dataclass that forbids unknown fields) gave for them.
 */
import { describe, expect, test } from "vitest";
import { readEnvironment } from "../../src/config/environment.ts";
import { parseKvEventsConfig } from "../../src/config/kv-events-config.ts";

const DEFAULTS = {
  enabled: false,
  publisher: "null",
  // vLLM's is tcp://*:5557.
  endpoint: "tcp://127.0.0.1:5557",
  bind: true,
  replayEndpoint: null,
  bufferSteps: 10_000,
  highWaterMark: 100_000,
  queueBatchesMax: 100_000,
  topic: "",
};

describe("taken as vLLM takes it", () => {
  test.each([
    ["{}", {}],
    ['{"enable_kv_cache_events":true}', { enabled: true, publisher: "zmq" }],
    [
      '{"enable_kv_cache_events":"yes","hwm":"12"}',
      { enabled: true, publisher: "zmq", highWaterMark: 12 },
    ],
    ['{"enable_kv_cache_events":"T"}', { enabled: true, publisher: "zmq" }],
    ['{"enable_kv_cache_events":1.0}', { enabled: true, publisher: "zmq" }],
    ['{"enable_kv_cache_events":true,"publisher":"null"}', { enabled: true }],
    ['{"hwm":12.0}', { highWaterMark: 12 }],
    ['{"hwm":true}', { highWaterMark: 1 }],
    ['{"hwm":" 12 "}', { highWaterMark: 12 }],
    ['{"hwm":"1_000"}', { highWaterMark: 1000 }],
    ['{"hwm":"12.0"}', { highWaterMark: 12 }],
    ['{"hwm":"+5"}', { highWaterMark: 5 }],
    ['{"hwm":"0005"}', { highWaterMark: 5 }],
    ['{"hwm":1e3}', { highWaterMark: 1000 }],
    ['{"replay_endpoint":null}', {}],
    [
      '{"endpoint":"ipc:///tmp/events","replay_endpoint":"tcp://*:5558","buffer_steps":0,"max_queue_size":1,"topic":"kv"}',
      {
        endpoint: "ipc:///tmp/events",
        bind: false,
        replayEndpoint: "tcp://*:5558",
        bufferSteps: 0,
        queueBatchesMax: 1,
        topic: "kv",
      },
    ],
  ])("%s", (text, expected) => {
    expect(parseKvEventsConfig(text).config).toEqual({ ...DEFAULTS, ...expected });
    expect(parseKvEventsConfig(JSON.parse(text)).config).toEqual({ ...DEFAULTS, ...expected });
  });

  test("none given", () => {
    expect(parseKvEventsConfig(undefined)).toEqual({ config: DEFAULTS, warnings: [] });
    expect(parseKvEventsConfig(null).config).toEqual(DEFAULTS);
  });
});

describe("refused as vLLM refuses it, with the field", () => {
  test.each([
    ['{"hwm":12.5}', "INVALID_VALUE", "kv_events_config.hwm"],
    ['{"hwm":""}', "INVALID_TYPE", "kv_events_config.hwm"],
    ['{"hwm":"1e3"}', "INVALID_TYPE", "kv_events_config.hwm"],
    ['{"hwm":null}', "INVALID_TYPE", "kv_events_config.hwm"],
    ['{"publisher":null}', "INVALID_TYPE", "kv_events_config.publisher"],
    ['{"publisher":"x"}', "INVALID_VALUE", "kv_events_config.publisher"],
    ['{"topic":5}', "INVALID_TYPE", "kv_events_config.topic"],
    ['{"topic":null}', "INVALID_TYPE", "kv_events_config.topic"],
    ['{"enable_kv_cache_events":2}', "INVALID_TYPE", "kv_events_config.enable_kv_cache_events"],
    [
      '{"enable_kv_cache_events":" true"}',
      "INVALID_TYPE",
      "kv_events_config.enable_kv_cache_events",
    ],
    ['{"enable_kv_cache_event":true}', "INVALID_VALUE", "kv_events_config.enable_kv_cache_event"],
    ["[]", "INVALID_TYPE", "kv_events_config"],
    ["{", "INVALID_VALUE", "kv_events_config"],
  ])("%s", (text, code, field) => {
    expect(() => parseKvEventsConfig(text)).toThrow(expect.objectContaining({ code, field }));
  });

  test("a misspelt setting is told its name", () => {
    expect(() => parseKvEventsConfig('{"replay_endpont":"tcp://*:1"}')).toThrow(
      /Did you mean "replay_endpoint"/,
    );
  });

  test("and what only this project refuses: no bound, no address", () => {
    for (const [text, field] of [
      ['{"max_queue_size":0}', "max_queue_size"],
      ['{"hwm":-1}', "hwm"],
      ['{"buffer_steps":-7}', "buffer_steps"],
      ['{"endpoint":"5557"}', "endpoint"],
      ['{"replay_endpoint":""}', "replay_endpoint"],
    ] as const)
      expect(() => parseKvEventsConfig(text)).toThrow(
        expect.objectContaining({ code: "INVALID_VALUE", field: `kv_events_config.${field}` }),
      );
  });
});

test("a publisher without events is warned of", () => {
  expect(parseKvEventsConfig('{"publisher":"zmq"}').warnings).toMatchObject([
    { field: "kv_events_config.publisher", value: "zmq" },
  ]);
});

test("bind_endpoint is bound as it is given, and goes without endpoint", () => {
  const { config, warnings } = parseKvEventsConfig({
    enable_kv_cache_events: true,
    bind_endpoint: "tcp://127.0.0.1:7000",
  });
  expect(config).toMatchObject({ endpoint: "tcp://127.0.0.1:7000", bind: true });
  expect(warnings).toEqual([]);
  expect(() =>
    parseKvEventsConfig({ endpoint: "tcp://*:1", bind_endpoint: "tcp://127.0.0.1:2" }),
  ).toThrow(
    expect.objectContaining({ code: "INVALID_VALUE", field: "kv_events_config.bind_endpoint" }),
  );
});

test.each([
  [{}, []],
  [{ endpoint: "tcp://*:5557" }, ["endpoint"]],
  [{ endpoint: "tcp://[::]:5557" }, ["endpoint"]],
  [{ endpoint: "tcp://*:0", replay_endpoint: "tcp://*:5558" }, ["endpoint", "replay_endpoint"]],
  [{ bind_endpoint: "tcp://0.0.0.0:5557" }, ["endpoint"]],
  // Connected to, as vLLM does: nobody can subscribe there.
  [{ endpoint: "tcp://127.0.0.1:5557" }, ["endpoint"]],
  [{ endpoint: "tcp://0.0.0.0:5557" }, ["endpoint"]],
  [{ endpoint: "tcp://collector:5557" }, []],
  [{ endpoint: "ipc:///run/events", replay_endpoint: "tcp://10.0.0.5:5558" }, []],
])("%j is warned of where it does not do what it seems to", (given, fields) => {
  const { warnings } = parseKvEventsConfig({ enable_kv_cache_events: true, ...given });
  expect(warnings.map(({ field }) => field)).toEqual(
    fields.map((key) => `kv_events_config.${key}`),
  );
});

test("the form of hashes and the host's address come from vLLM's variables", () => {
  const read = (value: string): boolean =>
    readEnvironment({ VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES: value }).kvEventIntegerHashes;
  expect(readEnvironment({})).toMatchObject({ kvEventIntegerHashes: true, hostAddress: null });
  expect([read("0"), read("1"), read("2")]).toEqual([false, true, true]);
  expect(() => read("true")).toThrow(
    expect.objectContaining({ field: "VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES" }),
  );
  expect(readEnvironment({ VLLM_HOST_IP: "10.0.0.5" }).hostAddress).toBe("10.0.0.5");
});
