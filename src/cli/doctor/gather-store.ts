import type { ConnectorEnvironment } from "../../config/environment.ts";
import { loadStoreConfig } from "../../config/store-config.ts";
import type { LoadedStoreConfig } from "../../config/store-config.ts";
import { MooncakeKvError } from "../../errors.ts";
import { MasterAdmin } from "../../pool/master-admin.ts";
import type { PoolSegment } from "../../pool/master-admin.ts";
import { canConnect, parseHostPort } from "../../pool/ports.ts";
import type { HostPort } from "../../pool/ports.ts";
import { poolsFolder, readPools } from "../../pool/state.ts";
import { problemOf } from "./facts.ts";
import type { DoctorQuestion, StoreFacts } from "./facts.ts";

const TIMEOUT_MS = 3_000;
/** Metrics port of a master that was started without saying one. */
const METRICS_PORT = 9003;

/** The store's JSON, and what answers at the addresses in it. */
export async function gatherStore(
  environment: ConnectorEnvironment,
  question: DoctorQuestion,
): Promise<StoreFacts> {
  const { configPath, preferredSegment } = environment;
  const nothing: StoreFacts = {
    configPath,
    loaded: null,
    problem: null,
    preferredSegment,
    masterReachable: null,
    segments: null,
    metricsAddress: null,
  };
  if (configPath === null) return nothing;
  let loaded: LoadedStoreConfig;
  try {
    loaded = loadStoreConfig(configPath, preferredSegment);
  } catch (error) {
    if (!(error instanceof MooncakeKvError)) throw error;
    return { ...nothing, problem: problemOf(error) };
  }
  const master = parseHostPort(loaded.config.masterServerAddress);
  if (master === null) return { ...nothing, loaded };
  const metrics = metricsOf(master, loaded.config.masterServerAddress, question);
  const [masterReachable, segments] = await Promise.all([
    canConnect(master.host, master.port, TIMEOUT_MS),
    readSegments(metrics),
  ]);
  const metricsAddress = `${metrics.host}:${metrics.port}`;
  return { ...nothing, loaded, masterReachable, segments, metricsAddress };
}

function metricsOf(master: HostPort, address: string, question: DoctorQuestion): HostPort {
  const given = question.metrics === null ? null : parseHostPort(question.metrics);
  if (given !== null) return given;
  const { living } = readPools(poolsFolder(question.variables));
  const known = living.find(({ store }) => store.master_server_address === address);
  return { host: master.host, port: known?.metricsPort ?? METRICS_PORT };
}

async function readSegments(metrics: HostPort): Promise<PoolSegment[] | null> {
  try {
    return await new MasterAdmin(metrics, TIMEOUT_MS).segments();
  } catch {
    // Whatever answers there, if anything does, is no master's metrics port.
    return null;
  }
}
