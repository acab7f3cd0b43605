import { NONE } from "../blocks/layout.ts";
import type { ConnectorMetadata, ConnectorOutput } from "./hooks.ts";

/** Empty metadata with room for every job of the table. */
export function createConnectorMetadata(jobSlots: number): ConnectorMetadata {
  return {
    loads: new Int32Array(jobSlots),
    loadCount: 0,
    saves: new Int32Array(jobSlots),
    saveCount: 0,
    hasSyncLoads: false,
  };
}

/** An empty output with room for every job of the table. */
export function createConnectorOutput(jobSlots: number): ConnectorOutput {
  return {
    doneLoads: new Int32Array(jobSlots),
    doneLoadCount: 0,
    doneSaves: new Int32Array(jobSlots),
    doneSaveCount: 0,
    badChunks: new Int32Array(jobSlots).fill(NONE),
    loadOutcomes: new Int32Array(jobSlots),
    saveOutcomes: new Int32Array(jobSlots),
  };
}

export function clearConnectorOutput(output: ConnectorOutput): void {
  output.doneLoadCount = 0;
  output.doneSaveCount = 0;
}

export function addDoneLoad(
  output: ConnectorOutput,
  job: number,
  outcome: number,
  badChunk: number,
): void {
  const index = output.doneLoadCount++;
  output.doneLoads[index] = job;
  output.loadOutcomes[index] = outcome;
  output.badChunks[index] = badChunk;
}
export function addDoneSave(output: ConnectorOutput, job: number, outcome: number): void {
  const index = output.doneSaveCount++;
  output.doneSaves[index] = job;
  output.saveOutcomes[index] = outcome;
}
