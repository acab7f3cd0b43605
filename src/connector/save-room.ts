import { furtherSavePagesMax, saveJobsMax } from "../blocks/capacities.ts";
import type { TableDimensions } from "../blocks/tables.ts";

/** What of the job table and of the row arena saves may hold: the rest is for loads and for rows of requests, which cannot wait. */
export class SaveRoom {
  /** Pages beyond the first of each row. */
  readonly #furtherPagesMax: number;
  readonly #jobsMax: number;
  #furtherPages = 0;
  #jobs = 0;

  constructor(dimensions: TableDimensions) {
    this.#furtherPagesMax = furtherSavePagesMax(dimensions);
    this.#jobsMax = saveJobsMax(dimensions.jobSlots);
  }

  /** There is a record for one more. */
  hasRecord(): boolean {
    return this.#jobs < this.#jobsMax;
  }
  /** There is a record for one more, and room for its rows. */
  fits(furtherPages: number): boolean {
    return this.hasRecord() && this.#furtherPages + furtherPages <= this.#furtherPagesMax;
  }
  take(furtherPages: number): void {
    this.#furtherPages += furtherPages;
    this.#jobs++;
  }
  giveBack(furtherPages: number): void {
    this.#furtherPages -= furtherPages;
    this.#jobs--;
  }
}
