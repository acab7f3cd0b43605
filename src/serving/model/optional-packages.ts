import { MooncakeKvError } from "../../errors.ts";

/**
 * Packages that only serving a model needs. They are imported on first use, so that the rest of the project works without
 * them.
 */
export function loadOnnxRuntime(): Promise<typeof import("onnxruntime-node")> {
  return importOptional("onnxruntime-node", () => import("onnxruntime-node"));
}

/** Runs `load`, an import of the package `name`; throws OPTIONAL_MISSING when it is absent or cannot be loaded here. */
export async function importOptional<Module>(
  name: string,
  load: () => Promise<Module>,
): Promise<Module> {
  try {
    return await load();
  } catch (error) {
    throw new MooncakeKvError({
      code: "OPTIONAL_MISSING",
      field: name,
      problem: "this optional package could not be loaded, and running a model needs it",
      remedy: `Run "npm install ${name}" (for onnxruntime-node set ONNXRUNTIME_NODE_INSTALL=skip while installing).`,
      cause: error,
    });
  }
}
