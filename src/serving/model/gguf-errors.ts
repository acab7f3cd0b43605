import { MooncakeKvError } from "../../errors.ts";

/** The file is damaged or no model at all. */
export function modelInvalid(
  file: string,
  problem: string,
  remedy: string,
  value?: unknown,
): MooncakeKvError {
  return new MooncakeKvError({ code: "MODEL_INVALID", field: file, value, problem, remedy });
}

/** The file is sound, but needs something that is not built. */
export function modelUnsupported(
  file: string,
  problem: string,
  remedy: string,
  value?: unknown,
): MooncakeKvError {
  return new MooncakeKvError({ code: "UNSUPPORTED", field: file, value, problem, remedy });
}

export const DOWNLOAD_AGAIN =
  "Download the file again, its end or its middle is missing or damaged.";
