import { nearestName, shortName } from "../../config/warnings.ts";
import type { TableDimensions } from "../../blocks/tables.ts";
import { fail } from "../../errors.ts";
import type { BoundaryState } from "../hooks.ts";
import { checkId, checkIds, checkList, checkRecord, checkWhole } from "./arguments.ts";
import type { BlockIdsPerGroup } from "./requests.ts";
import type { FinalStates, ScheduledRequest, SchedulerStep } from "./scheduler-face.ts";

const STEP_KEYS: readonly string[] = [
  "scheduled",
  "preempted",
  "finished",
] satisfies (keyof SchedulerStep)[];
const SCHEDULED_KEYS: readonly string[] = [
  "id",
  "numComputedTokens",
  "numScheduledTokens",
  "newBlockIds",
  "blockIds",
  "boundaryPuts",
] satisfies (keyof ScheduledRequest)[];
const FINAL_KEYS: readonly string[] = [
  "states",
  "numComputedTokens",
] satisfies (keyof FinalStates)[];

/**
 * The whole step is looked at before any of it is taken: a step that is refused has changed nothing but what `checkRow` finds in the
 * rows of a request. Throws INVALID_TYPE or INVALID_VALUE naming the place.
 */
export function checkStep(step: SchedulerStep, dimensions: TableDimensions): void {
  checkRecord(step, "step", STEP_KEYS);
  const { scheduled, preempted, finished } = step;
  if (preempted !== undefined) checkIds(preempted, "step.preempted");
  if (finished !== undefined) checkIds(finished, "step.finished");
  checkList(scheduled, "step.scheduled");
  const seen = new Set<string>();
  for (let index = 0; index < scheduled.length; index++) {
    const request = scheduled[index] as ScheduledRequest;
    checkScheduled(request, index, dimensions);
    if (seen.has(request.id)) {
      const remedy = "Give each request once a step, with all tokens that the step computes.";
      fail("INVALID_VALUE", `scheduled[${index}].id`, request.id, "is there twice", remedy);
    }
    seen.add(request.id);
  }
}

function checkScheduled(
  request: ScheduledRequest,
  index: number,
  dimensions: TableDimensions,
): void {
  const most = dimensions.tokensPerRequestMax;
  if (typeof request !== "object" || request === null)
    checkRecord(request, `scheduled[${index}]`, SCHEDULED_KEYS);
  checkId(request.id, `scheduled[${index}].id`);
  checkWhole("scheduled.numComputedTokens", request.numComputedTokens, 0, most);
  checkWhole("scheduled.numScheduledTokens", request.numScheduledTokens, 0, most);
  const { blockIds, newBlockIds, boundaryPuts } = request;
  if (blockIds !== undefined) checkRows(blockIds, `scheduled[${index}].blockIds`);
  else if (newBlockIds !== null) checkRows(newBlockIds, `scheduled[${index}].newBlockIds`);
  if (boundaryPuts !== undefined) checkStates(boundaryPuts, dimensions);
  for (const key in request) if (!SCHEDULED_KEYS.includes(key)) checkMisspelt(key, index);
}

/** A loop may hand over objects of its own with more in them; what looks like one of ours is a typing error. */
function checkMisspelt(key: string, index: number): void {
  const nearest = nearestName(key, SCHEDULED_KEYS);
  if (nearest === null) return;
  const field = `scheduled[${index}].${shortName(key)}`;
  const remedy = `Did you mean "${nearest}"? Rename or remove it.`;
  fail("INVALID_VALUE", field, undefined, "is not known and would have no effect", remedy);
}

/** One list a group; what they hold is `EmbeddedRequests`' to check, against the tables. Throws INVALID_TYPE. */
export function checkRows(rows: BlockIdsPerGroup, field = "blockIds"): void {
  const remedy = "Give one list of block ids for each KV-cache group.";
  const lists: unknown = rows;
  if (!Array.isArray(lists)) fail("INVALID_TYPE", field, rows, "must be a list of lists", remedy);
  for (let group = 0; group < lists.length; group++) {
    const ids: unknown = lists[group];
    if (Array.isArray(ids) || (ArrayBuffer.isView(ids) && "length" in ids)) continue;
    fail("INVALID_TYPE", `${field}[${group}]`, ids, "must be a list of block ids", remedy);
  }
}

/** States of Mamba groups; which groups and tokens may have one is the scheduler side's to check. */
export function checkStates(states: readonly BoundaryState[], dimensions: TableDimensions): void {
  checkList(states, "boundaryPuts");
  for (const state of states) {
    checkRecord(state, "boundaryPuts[]", ["group", "block", "tokens"]);
    checkWhole("boundaryPuts.block", state.block, 0, dimensions.blockCount - 1);
    checkWhole("boundaryPuts.group", state.group, 0, dimensions.groups - 1);
  }
}

export function checkFinal(final: FinalStates, dimensions: TableDimensions): void {
  checkRecord(final, "final", FINAL_KEYS);
  checkWhole("final.numComputedTokens", final.numComputedTokens, 0, dimensions.tokensPerRequestMax);
  checkStates(final.states, dimensions);
}
