import type { GroupBytes, PoolIdentity } from "./identity.ts";
import { canonicalJson, shownJson } from "./identity-value.ts";
import type { PublishedIdentity } from "./identity-value.ts";

export interface IdentityDifference {
  /** `keys.…` or `bytes.…`: the field of the published value. */
  readonly field: string;
  /** Canonical JSON, cut when it is long. */
  readonly ours: string;
  readonly theirs: string;
}

export interface IdentityComparison {
  /** Nothing is shared with the member that published. */
  readonly keys: readonly IdentityDifference[];
  /** Its values, and those of all that agree with it, are not what ours are: reading them would be wrong without a sign. */
  readonly bytes: readonly IdentityDifference[];
}

/**
 * Every field that both have. Bytes are compared even where keys differ: a third member may have the keys of the one and the
 * bytes of the other, and agrees with what is published just as far. Fields that the published value lacks are not compared.
 */
export function compareIdentities(
  ours: PoolIdentity,
  theirs: PublishedIdentity,
): IdentityComparison {
  const { weightsFingerprint, pipelineRank, groups, ...plain } = ours.bytes;
  const bytes = differences("bytes", plain, theirs.bytes);
  const { weightsFingerprint: theirWeights = null, groups: theirGroups } = theirs.bytes;
  if (weightsFingerprint !== null && theirWeights !== null)
    bytes.push(...differences("bytes", { weightsFingerprint }, theirs.bytes));
  const sameStage = theirs.bytes["pipelineRank"] === pipelineRank;
  if (theirGroups !== undefined) {
    // What differs for the whole model need not be told again of each group.
    const told = new Set(bytes.map(({ field }) => fieldName(field)));
    const ofGroups = groupDifferences(groups, theirGroups, sameStage);
    bytes.push(...ofGroups.filter(({ field }) => !told.has(fieldName(field))));
  }
  return { keys: differences("keys", ours.keys, theirs.keys), bytes };
}

function differences(
  part: string,
  ours: object,
  theirs: Readonly<Record<string, unknown>>,
): IdentityDifference[] {
  const found: IdentityDifference[] = [];
  for (const [name, value] of Object.entries(ours)) {
    if (theirs[name] === undefined) continue;
    if (canonicalJson(value) === canonicalJson(theirs[name])) continue;
    found.push({
      field: `${part}.${name}`,
      ours: shownJson(value),
      theirs: shownJson(theirs[name]),
    });
  }
  return found;
}

function fieldName(field: string): string {
  return field.slice(field.lastIndexOf(".") + 1);
}

function groupDifferences(
  ours: readonly GroupBytes[],
  theirs: unknown,
  sameStage: boolean,
): IdentityDifference[] {
  if (!Array.isArray(theirs) || theirs.length !== ours.length)
    return [{ field: "bytes.groups", ours: shownJson(ours), theirs: shownJson(theirs) }];
  return ours.flatMap((group, index) => {
    const { layers, ...everywhere } = group;
    const their: unknown = theirs[index];
    const comparable = typeof their === "object" && their !== null ? { ...their } : {};
    return differences(
      `bytes.groups[${index}]`,
      sameStage ? { layers, ...everywhere } : everywhere,
      comparable,
    );
  });
}
