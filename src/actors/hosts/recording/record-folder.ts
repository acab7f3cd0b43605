import { accessSync, constants } from "node:fs";
import { makeFolder } from "../../../config/file-kinds.ts";
import { MooncakeKvError } from "../../../errors.ts";

/** Makes the folder for recordings if it is not there. Throws INVALID_VALUE when nothing can be written there. */
export function prepareRecordFolder(folder: string): void {
  try {
    makeFolder(folder);
    accessSync(folder, constants.W_OK);
  } catch (error) {
    throw new MooncakeKvError({
      code: "INVALID_VALUE",
      field: "record folder",
      value: folder,
      problem: error instanceof Error ? error.message : String(error),
      remedy: "Give a folder that this process may write to.",
      cause: error,
    });
  }
}
