/**
 * Goal: each fault of a machine, a wheel, a store's JSON or a pool is told with the command that mends it, and counts as failed
 * only when the configured engine needs the thing.
 * Method: facts of a healthy machine, changed in one place a time; the checks themselves touch nothing.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Check } from "../../src/cli/doctor/check.ts";
import { examine } from "../../src/cli/doctor/doctor.ts";
import type { DoctorFacts, MachineFacts, StoreFacts } from "../../src/cli/doctor/facts.ts";
import { lockedMemory, missingLibraries, rdmaDevices } from "../../src/cli/doctor/machine.ts";
import { checkStoreConfig, parseStoreConfig } from "../../src/config/store-config.ts";
import type { Interpreter } from "../../src/store/mooncake/interpreter.ts";

const GIB = 1024 ** 3;
const SEGMENT = "10.0.0.1:50053";

const interpreter: Interpreter = {
  path: "/opt/python3",
  source: ".venv",
  version: "3.11.7",
  sharedLibrary: "/opt/libpython3.11.so.1.0",
  mooncakeFolder: "/opt/mooncake",
  wheelName: "mooncake-transfer-engine-non-cuda",
  wheelVersion: "0.3.13.post1",
  hasXxhash: true,
};

const machine: MachineFacts = {
  nodeVersion: "20.20.2",
  debian: true,
  root: true,
  lockedMemoryBytesMax: null,
  openFilesMax: 65536,
  hugepagesTotal: 0,
  hugepagesFree: 0,
  hugepageBytes: 2 * 1024 ** 2,
  hugepagesWanted: false,
};

function store(file: object, changes: Partial<StoreFacts> = {}): StoreFacts {
  const json = {
    metadata_server: "P2PHANDSHAKE",
    master_server_address: "127.0.0.1:50051",
    protocol: "tcp",
    ...file,
  };
  const config = parseStoreConfig(json);
  const preferredSegment = changes.preferredSegment ?? null;
  return {
    configPath: "store.json",
    loaded: { config, warnings: checkStoreConfig(json, config, preferredSegment) },
    problem: null,
    masterReachable: true,
    segments: [
      { name: SEGMENT, clientId: "1", protocol: "tcp", status: "OK", bytesUsed: 0, bytesMax: GIB },
    ],
    metricsAddress: "127.0.0.1:9003",
    preferredSegment,
    ...changes,
  };
}

const healthy: DoctorFacts = {
  engine: "mooncake",
  settingsProblem: null,
  machine,
  package: {
    folder: "/opt/mooncake-kv",
    addonProblem: null,
    optional: [
      { name: "fastify", purpose: "mooncake-kv serve", wanted: "5.12.8", installed: true },
    ],
  },
  interpreter,
  wheelLibraries: { missing: [], unknown: null },
  rdma: [],
  store: store({}),
  ports: [{ port: 8998, purpose: "bootstrap", free: true }],
  hash: { algorithm: "sha256", seed: null },
};

const standalone = { mode: "standalone-store", global_segment_size: 0, enable_offload: true };

function faults(changes: Partial<DoctorFacts>): Check[] {
  return examine({ ...healthy, ...changes }).filter(({ status }) => status !== "ok");
}

test("a healthy machine has no fault, with either engine", () => {
  expect(faults({})).toEqual([]);
  expect(faults({ engine: "local" })).toEqual([]);
});

type Row = readonly [
  what: string,
  changes: Partial<DoctorFacts>,
  status: "warn" | "fail",
  name: string,
  found: string,
  fix: string,
];

const apt = "apt-get install -y";
const rdma = store({ protocol: "rdma" });
const active = [{ name: "mlx5_0", portStates: ["ACTIVE"] }];

const ROWS: readonly Row[] = [
  [
    "old Node",
    { machine: { ...machine, nodeVersion: "20.2.0" } },
    "fail",
    "node",
    "20.2.0",
    "nvm install 20",
  ],
  [
    "no addon",
    {
      package: {
        ...healthy.package,
        addonProblem: { text: "not built", remedy: "npm run build:native" },
      },
    },
    "fail",
    "native addon",
    "not built",
    "npm run build:native",
  ],
  [
    "wrong settings",
    { settingsProblem: { text: "kv_role: is not known", remedy: "Use one of kv_both." } },
    "fail",
    "settings",
    "kv_role",
    "kv_both",
  ],
  [
    "optional package",
    {
      package: {
        ...healthy.package,
        optional: [{ name: "zeromq", purpose: "events", wanted: "6.8.0", installed: false }],
      },
    },
    "warn",
    "zeromq",
    "only events",
    "npm install zeromq@6.8.0",
  ],
  [
    "port taken",
    { ports: [{ port: 8998, purpose: "bootstrap", free: false }] },
    "warn",
    "port 8998",
    "taken",
    "ss -ltnp",
  ],
  [
    "xxhash without seed",
    { hash: { algorithm: "xxhash_cbor", seed: null } },
    "warn",
    "PYTHONHASHSEED",
    "random bytes",
    "export PYTHONHASHSEED=0",
  ],
  [
    "no Python",
    { interpreter: null },
    "fail",
    "python",
    "no python3",
    `${apt} python3 python3-venv`,
  ],
  [
    "no Python, not root",
    { interpreter: null, machine: { ...machine, root: false } },
    "fail",
    "python",
    "no python3",
    `sudo ${apt} python3`,
  ],
  [
    "no Python, not Debian",
    { interpreter: null, machine: { ...machine, debian: false } },
    "fail",
    "python",
    "no python3",
    "package manager what Debian calls python3",
  ],
  [
    "MOONCAKE_PYTHON does not run",
    { interpreter: { path: "/nowhere", source: "MOONCAKE_PYTHON", problem: "ENOENT" } },
    "fail",
    "python",
    "/nowhere",
    "unset MOONCAKE_PYTHON",
  ],
  [
    "broken .venv",
    {
      interpreter: {
        path: ".venv/bin/python3",
        source: ".venv",
        problem: "the interpreter does not run",
      },
    },
    "fail",
    "python",
    "does not run",
    "python3 -m venv .venv",
  ],
  [
    "old Python",
    { interpreter: { ...interpreter, version: "3.7.9" } },
    "fail",
    "python",
    "3.7.9",
    "python3",
  ],
  [
    "Python without shared library",
    { interpreter: { ...interpreter, sharedLibrary: null } },
    "fail",
    "libpython",
    "no shared library",
    `${apt} libpython3.11`,
  ],
  [
    "wheel missing",
    {
      interpreter: { ...interpreter, mooncakeFolder: null, wheelVersion: null },
      wheelLibraries: null,
    },
    "fail",
    "mooncake wheel",
    "not installed",
    "/opt/python3 -m pip install mooncake-transfer-engine-non-cuda==0.3.13.post1",
  ],
  [
    "wheel missing for the system's Python",
    { interpreter: { ...interpreter, source: "PATH", mooncakeFolder: null }, wheelLibraries: null },
    "fail",
    "mooncake wheel",
    "not installed",
    "python3 -m venv .venv",
  ],
  [
    "wheel of another version",
    { interpreter: { ...interpreter, wheelVersion: "0.3.7" } },
    "warn",
    "mooncake wheel",
    "0.3.7",
    "==0.3.13.post1",
  ],
  [
    "libraries of the wheel",
    { wheelLibraries: { missing: ["libibverbs.so.1", "libnuma.so.1"], unknown: null } },
    "fail",
    "wheel's libraries",
    "libibverbs.so.1, libnuma.so.1",
    `${apt} libibverbs1 libnuma1`,
  ],
  [
    "an old libc",
    { wheelLibraries: { missing: ["GLIBC_2.38"], unknown: null } },
    "fail",
    "wheel's libraries",
    "GLIBC_2.38",
    "newer distribution",
  ],
  [
    "no ldd",
    { wheelLibraries: { missing: [], unknown: "ldd: none" } },
    "warn",
    "wheel's libraries",
    "not known",
    "libc-bin",
  ],
  ["rdma without device", { store: rdma }, "fail", "RDMA devices", "none", "rdma link add"],
  [
    "rdma with its port down",
    { store: rdma, rdma: [{ name: "mlx5_0", portStates: ["DOWN"] }] },
    "fail",
    "RDMA devices",
    "mlx5_0 DOWN",
    "rdma link add",
  ],
  [
    "rdma with another device",
    { store: store({ protocol: "rdma", device_name: "mlx5_0,mlx5_9" }), rdma: active },
    "fail",
    "RDMA devices",
    "asks for mlx5_9",
    "one of mlx5_0",
  ],
  [
    "too few open files",
    { machine: { ...machine, openFilesMax: 100 } },
    "fail",
    "open files",
    "100; 256 are needed",
    "ulimit -n 65536",
  ],
  [
    "few open files",
    { machine: { ...machine, openFilesMax: 512 } },
    "warn",
    "open files",
    "512",
    "ulimit -n 65536",
  ],
  [
    "too little locked memory",
    { store: rdma, rdma: active, machine: { ...machine, lockedMemoryBytesMax: 8 * 1024 ** 2 } },
    "fail",
    "locked memory",
    "8388608",
    "ulimit -l unlimited",
  ],
  [
    "limited locked memory",
    { store: rdma, rdma: active, machine: { ...machine, lockedMemoryBytesMax: 64 * GIB } },
    "warn",
    "locked memory",
    "may be locked",
    "memlock",
  ],
  [
    "hugepages asked for",
    { machine: { ...machine, hugepagesWanted: true, hugepagesTotal: 10, hugepagesFree: 4 } },
    "fail",
    "hugepages",
    "4096 are needed",
    "vm.nr_hugepages=4102",
  ],
  [
    "no store JSON",
    { store: { ...healthy.store, configPath: null, loaded: null } },
    "fail",
    "store JSON",
    "MOONCAKE_CONFIG_PATH is not set",
    "mooncake-kv pool start",
  ],
  [
    "wrong store JSON",
    {
      store: {
        ...healthy.store,
        loaded: null,
        problem: { text: "mode: is not a mode", remedy: "Use embedded." },
      },
    },
    "fail",
    "store JSON",
    "is not a mode",
    "Use embedded",
  ],
  [
    "a store JSON to wonder about",
    { store: store({ enable_offlod: true }) },
    "warn",
    "store JSON",
    "enable_offlod",
    'Did you mean "enable_offload"',
  ],
  [
    "no master",
    { store: store({}, { masterReachable: false, segments: null }) },
    "fail",
    "master",
    "nobody answers",
    "mooncake-kv pool start --port 50051 --detach",
  ],
  [
    "no master on another host",
    { store: store({ master_server_address: "10.0.0.9:50051" }, { masterReachable: false }) },
    "fail",
    "master",
    "10.0.0.9:50051",
    "mooncake_master --rpc_address=10.0.0.9",
  ],
  [
    "an address without a port",
    { store: store({ master_server_address: "nowhere" }, { masterReachable: null }) },
    "fail",
    "master",
    "nowhere is not host:port",
    "127.0.0.1:50051",
  ],
  [
    "no owner",
    { store: store(standalone, { segments: [] }) },
    "fail",
    "owner",
    "every save",
    "--enable_offload=true",
  ],
  [
    "metrics out of reach",
    { store: store(standalone, { segments: null }) },
    "warn",
    "owner",
    "127.0.0.1:9003",
    "doctor --metrics",
  ],
  [
    "another owner than the preferred one",
    { store: store(standalone, { preferredSegment: "10.0.0.2:1" }) },
    "fail",
    "owner",
    "10.0.0.2:1 is no living member",
    `export MOONCAKE_PREFERRED_SEGMENT=${SEGMENT}`,
  ],
];

test.each(ROWS)("%s", (_, changes, status, name, found, fix) => {
  expect(faults(changes)).toEqual([
    {
      name,
      status,
      found: expect.stringContaining(found) as string,
      fix: expect.stringContaining(fix) as string,
    },
  ]);
});

test("what only the mooncake engine needs is a warning for the local one", () => {
  const broken = {
    interpreter: null,
    wheelLibraries: null,
    store: { ...healthy.store, configPath: null },
  };
  const checks = faults({ ...broken, engine: "local" });
  expect(checks.map(({ name, status }) => [name, status])).toEqual([
    ["python", "warn"],
    ["store JSON", "warn"],
  ]);
  expect(checks[0]?.found).toContain("the local engine does not need it");
  const old = faults({
    ...broken,
    engine: "local",
    machine: { ...machine, nodeVersion: "18.0.0" },
  });
  expect(old[0]).toMatchObject({ name: "node", status: "fail" });
});

test("a preferred segment that lives, and an owner that nobody prefers, are fine", () => {
  expect(faults({ store: store(standalone, { preferredSegment: SEGMENT }) })).toEqual([]);
  expect(faults({ store: store(standalone) })).toEqual([]);
});

test("ldd's words: missing libraries once each, and versions that are too old", () => {
  const output = [
    "store.so:",
    "\tlinux-vdso.so.1 (0x1)",
    "\tlibnuma.so.1 => not found",
    "\tlibc.so.6 => /lib/libc.so.6 (0x2)",
    "engine.so:",
    "\tlibnuma.so.1 => not found",
    "engine.so: /lib/libc.so.6: version `GLIBC_2.38' not found (required by engine.so)",
  ].join("\n");
  expect(missingLibraries(output)).toEqual(["GLIBC_2.38", "libnuma.so.1"]);
});

test("the limit of locked memory out of the kernel's table", () => {
  const row = (soft: string): string =>
    `Limit  Soft Limit  Hard Limit  Units\nMax locked memory         ${soft}    unlimited   bytes\n`;
  expect(lockedMemory(row("8388608"))).toBe(8_388_608);
  expect(lockedMemory(row("unlimited"))).toBeNull();
});

test("RDMA devices out of the kernel's folder", () => {
  const folder = mkdtempSync(join(tmpdir(), "doctor-rdma-"));
  try {
    mkdirSync(join(folder, "rxe0", "ports", "1"), { recursive: true });
    writeFileSync(join(folder, "rxe0", "ports", "1", "state"), "4: ACTIVE\n");
    expect(rdmaDevices(folder)).toEqual([{ name: "rxe0", portStates: ["ACTIVE"] }]);
    expect(rdmaDevices(join(folder, "none"))).toEqual([]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
