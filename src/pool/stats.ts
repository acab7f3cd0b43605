import { jsonExcess } from "../config/json-text.ts";
import { MooncakeKvError } from "../errors.ts";
import type { MasterAdmin, PoolSegment } from "./master-admin.ts";
import { askStore } from "./store-client.ts";
import type { StoreClientOptions } from "./store-client.ts";

/** The end of the well-known key in which the members of a deployment publish who they are. */
export const IDENTITY_KEY_ENDING = "@mooncake-kv-identity";
const IDENTITIES_MAX = 64;
/** Ten times what an identity has. */
const VALUE_BYTES_MAX = 16 * 1024;
/** What is no identity is shown so far. */
const SHOWN_CHARACTERS_MAX = 200;

export interface PoolIdentity {
  readonly key: string;
  /** What the key holds: a JSON object, else the beginning of its text, or how long it is; null when it could not be read. */
  readonly value: unknown;
}

export interface PoolStats {
  readonly members: readonly PoolSegment[];
  readonly memory: PoolUse;
  readonly disk: PoolUse;
  readonly keys: number;
  readonly activeClients: number;
  /** Keys by what stands before the first "@": a cache prefix, or the model when there is none. */
  readonly keysByFirstPart: Readonly<Record<string, number>>;
  readonly identities: readonly PoolIdentity[];
  /** Why identities could not be read; null when they could. */
  readonly identitiesProblem: string | null;
}

export interface PoolUse {
  readonly bytesUsed: number;
  readonly bytesMax: number;
}

/** Members, use, keys and identities. `client` null: identities are named but not read. Throws what `MasterAdmin` throws. */
export async function readPoolStats(
  admin: MasterAdmin,
  client: (() => Promise<StoreClientOptions>) | null,
): Promise<PoolStats> {
  const [members, metrics, keys] = await Promise.all([
    admin.segments(),
    admin.metrics(),
    admin.keys(),
  ]);
  const gauge = (name: string): number => metrics.get(name) ?? 0;
  const identityKeys = keys
    .filter((key) => key.endsWith(IDENTITY_KEY_ENDING))
    .slice(0, IDENTITIES_MAX);
  const read = await readIdentities(identityKeys, client);
  return {
    members,
    memory: {
      bytesUsed: gauge("master_allocated_bytes"),
      bytesMax: gauge("master_total_capacity_bytes"),
    },
    disk: {
      bytesUsed: gauge("master_allocated_file_size_bytes"),
      bytesMax: gauge("master_total_file_capacity_bytes"),
    },
    keys: keys.length,
    activeClients: gauge("master_active_clients"),
    keysByFirstPart: countFirstParts(keys),
    ...read,
  };
}

async function readIdentities(
  keys: readonly string[],
  client: (() => Promise<StoreClientOptions>) | null,
): Promise<Pick<PoolStats, "identities" | "identitiesProblem">> {
  if (keys.length === 0) return { identities: [], identitiesProblem: null };
  const unread = keys.map((key) => ({ key, value: null }));
  if (client === null) return { identities: unread, identitiesProblem: "not asked for" };
  try {
    const question = { action: "values", keys, valueBytesMax: VALUE_BYTES_MAX } as const;
    const { values } = await askStore(await client(), question);
    const identities = keys.map((key) => ({ key, value: shown(values?.[key]) }));
    return { identities, identitiesProblem: null };
  } catch (error) {
    if (!(error instanceof MooncakeKvError)) throw error;
    return { identities: unread, identitiesProblem: error.message };
  }
}

function shown(read: { readonly size: number; readonly text: string | null } | undefined): unknown {
  const { size = -1, text = null } = read ?? {};
  if (size > VALUE_BYTES_MAX) return `${size} bytes: no identity`;
  if (text === null) return null;
  // Only what is no deeper than an identity may be printed as JSON.
  return jsonExcess(text, SHAPE) === null ? parsed(text) : text.slice(0, SHOWN_CHARACTERS_MAX);
}
const SHAPE = { depthMax: 8, containersMax: 1024, fieldsMax: 4096 };

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text.slice(0, SHOWN_CHARACTERS_MAX);
  }
}

function countFirstParts(keys: readonly string[]): Record<string, number> {
  const counts = new Map<string, number>();
  for (const key of keys) {
    const first = key.slice(0, Math.max(0, key.indexOf("@")));
    counts.set(first, (counts.get(first) ?? 0) + 1);
  }
  return Object.fromEntries([...counts].toSorted((left, right) => right[1] - left[1]));
}
