/** The regions of two peers brought together: matched by layer, merged where they lie side by side, and checked against each other. */
import { tpRatio } from "./sender-plan.ts";

/** Memory in which block b begins at byte `baseAddress + b * blockBytes`; `copyBytes` of it are to be copied. */
export interface TransferRegion {
  readonly layerName: string;
  readonly layerIndex: number;
  readonly baseAddress: number;
  readonly blockBytes: number;
  readonly copyBytes: number;
  /** KV-cache group; -1: several share the region. */
  readonly group: number;
  readonly sharedGroups: readonly number[];
  /** Where the region lies in the row of its block; -1: not told. */
  readonly rowOffset: number;
}

export interface RegionPairs {
  readonly local: readonly TransferRegion[];
  readonly remote: readonly TransferRegion[];
}

/** `error`: vLLM's text, which goes to the peer. */
export type Alignment = ({ readonly error: null } & RegionPairs) | { readonly error: string };

/**
 * Pairs the prefiller's regions with the decoder's: the n-th of a layer with the n-th of the same layer. Pipeline stages hold
 * different layers; with `allowPartialLayers` those that the decoder does not have are left out.
 */
export function alignRegions(
  local: readonly TransferRegion[],
  remote: readonly TransferRegion[],
  allowPartialLayers: boolean,
): Alignment {
  const remoteOfLayer = new Map<string, TransferRegion[]>();
  for (const theirs of remote) {
    const known = remoteOfLayer.get(theirs.layerName);
    if (known === undefined) remoteOfLayer.set(theirs.layerName, [theirs]);
    else known.push(theirs);
  }
  const seen = new Map<string, number>();
  const pairs: { local: TransferRegion[]; remote: TransferRegion[] } = { local: [], remote: [] };
  for (const ours of local) {
    const { layerName } = ours;
    const occurrence = seen.get(layerName) ?? 0;
    seen.set(layerName, occurrence + 1);
    const theirs = remoteOfLayer.get(layerName)?.[occurrence];
    if (theirs === undefined) {
      if (allowPartialLayers && !remoteOfLayer.has(layerName)) continue;
      const missing = "Mooncake producer registered layer has no matching consumer occurrence";
      return { error: `${missing}: ${layerName} occurrence ${occurrence}.` };
    }
    const error = mismatch(ours, theirs);
    if (error !== null) return { error };
    pairs.local.push(ours);
    pairs.remote.push(theirs);
  }
  return { error: null, ...pairs };
}

/**
 * Joins regions that follow each other on both sides within one row of a block (padding between them is copied along). With
 * `promoteFullRow`, what begins a row on both sides becomes the whole row, so that blocks in a row can be copied at once.
 */
export function coalesceRegions(
  { local, remote }: RegionPairs,
  promoteFullRow: boolean,
): RegionPairs {
  if (local.length !== remote.length) return { local, remote };
  const joined: { local: TransferRegion[]; remote: TransferRegion[] } = { local: [], remote: [] };
  let begin = 0;
  for (let end = 1; end <= local.length; end++) {
    if (end < local.length && follows(local, begin, end) && follows(remote, begin, end)) continue;
    joined.local.push(...span(local[begin], local[end - 1]));
    joined.remote.push(...span(remote[begin], remote[end - 1]));
    begin = end;
  }
  return promoteFullRow ? promoted(joined) : joined;
}

export interface TransferPair {
  readonly localTpSize: number;
  readonly remoteTpSize: number;
  readonly localReplicated: boolean;
  readonly kvHeads: number | null;
}

/** null when the lengths of all pairs fit the two tensor-parallel sizes, else vLLM's text. */
export function validateRegionBytes(
  { local, remote }: RegionPairs,
  pair: TransferPair,
): string | null {
  if (local.length !== remote.length)
    return "Mooncake asymmetric TP requires matching KV region counts between producer and consumer.";
  const { kvHeads } = pair;
  if (kvHeads === null && pair.localReplicated) return null;
  // Ranks beyond the number of heads hold heads again.
  const size = (tpSize: number): number => (kvHeads === null ? tpSize : Math.min(tpSize, kvHeads));
  const ratio = tpRatio(size(pair.localTpSize), size(pair.remoteTpSize));
  if (ratio === null)
    return `Mooncake cannot pair tensor-parallel sizes ${pair.localTpSize} and ${pair.remoteTpSize}.`;
  for (let index = 0; index < local.length; index++) {
    const error = lengthError(
      index,
      local[index]?.copyBytes ?? 0,
      remote[index]?.copyBytes ?? 0,
      ratio,
    );
    if (error !== null) return error;
  }
  return null;
}

function lengthError(index: number, ours: number, theirs: number, ratio: number): string | null {
  const where = `at region ${index}: local=${ours}, remote=${theirs}`;
  if (ratio === 1)
    return ours === theirs
      ? null
      : `Mooncake KV region length mismatch for homogeneous TP ${where}.`;
  if (ratio > 0 ? theirs === ours * ratio : ours === theirs * -ratio) return null;
  const side = ratio > 0 ? "destination" : "source";
  const peer = ratio > 0 ? "producer" : "consumer";
  return `Mooncake ${side} KV region length does not match the ${peer} TP ratio ${where}, tp_ratio=${ratio}.`;
}

function mismatch(ours: TransferRegion, theirs: TransferRegion): string | null {
  const says = (what: string, own: unknown, other: unknown): string =>
    `Mooncake ${what} mismatch for ${ours.layerName}: producer=${String(own)}, consumer=${String(other)}.`;
  if (ours.layerIndex !== theirs.layerIndex)
    return says("registered layer index", ours.layerIndex, theirs.layerIndex);
  if (ours.group !== theirs.group) return says("registered group index", ours.group, theirs.group);
  const told = ours.sharedGroups.length > 0 && theirs.sharedGroups.length > 0;
  if (told && !sameGroups(ours, theirs))
    return says("shared-group set", tuple(ours.sharedGroups), tuple(theirs.sharedGroups));
  return null;
}

/** As Python writes it. */
function tuple(items: readonly number[]): string {
  return items.length === 1 ? `(${items[0]},)` : `(${items.join(", ")})`;
}

function sameGroups(left: TransferRegion, right: TransferRegion): boolean {
  const { sharedGroups: ours } = left;
  const { sharedGroups: theirs } = right;
  return ours.length === theirs.length && ours.every((group, index) => group === theirs[index]);
}

/** Whether region `index` goes on where the one before ended, inside the row that region `begin` began. */
function follows(regions: readonly TransferRegion[], begin: number, index: number): boolean {
  const first = regions[begin];
  const before = regions[index - 1];
  const next = regions[index];
  if (first === undefined || before === undefined || next === undefined) return false;
  return (
    before.group === next.group &&
    sameGroups(before, next) &&
    before.blockBytes === next.blockBytes &&
    before.baseAddress + before.copyBytes <= next.baseAddress &&
    next.baseAddress + next.copyBytes <= first.baseAddress + first.blockBytes
  );
}

function span(
  first: TransferRegion | undefined,
  last: TransferRegion | undefined,
): TransferRegion[] {
  if (first === undefined || last === undefined) return [];
  return [{ ...first, copyBytes: last.baseAddress + last.copyBytes - first.baseAddress }];
}

function promoted({ local, remote }: RegionPairs): RegionPairs {
  const whole = local.map((ours, index) => {
    const theirs = remote[index];
    return (
      theirs !== undefined &&
      ours.rowOffset === 0 &&
      theirs.rowOffset === 0 &&
      ours.blockBytes === theirs.blockBytes &&
      ours.copyBytes <= ours.blockBytes &&
      theirs.copyBytes <= theirs.blockBytes
    );
  });
  const lift = (region: TransferRegion, index: number): TransferRegion =>
    whole[index] === true ? { ...region, copyBytes: region.blockBytes } : region;
  return { local: local.map(lift), remote: remote.map(lift) };
}
