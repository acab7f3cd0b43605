import { MooncakeKvError } from "../errors.ts";

export type Zeromq = typeof import("zeromq");

/** The optional package, imported on first use. Throws OPTIONAL_MISSING when it is absent or cannot be loaded here. */
export async function loadZeromq(
  load: () => Promise<Zeromq> = () => import("zeromq"),
): Promise<Zeromq> {
  try {
    return await load();
  } catch (cause) {
    throw new MooncakeKvError({
      code: "OPTIONAL_MISSING",
      field: "zeromq",
      problem: "this optional package could not be loaded, and KV events travel over it",
      remedy: 'Run "npm install zeromq@6.8.0".',
      cause,
    });
  }
}
