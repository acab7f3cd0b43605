/**
 * Goal: an optional package that is absent gives an error that names it and the command that installs it.
 * Method: an import that really fails; the present packages load.
 */
import { expect, test } from "vitest";
import { importOptional, loadOnnxRuntime } from "../../src/serving/model/optional-packages.ts";

test("an absent package", async () => {
  const name = "@mooncake-kv/not-there";
  const load = importOptional(name, () => import(/* @vite-ignore */ name));
  await expect(load).rejects.toMatchObject({ code: "OPTIONAL_MISSING", field: name });
  await expect(load).rejects.toThrow(/npm install @mooncake-kv\/not-there/);
});

test("a present package", async () => {
  expect((await loadOnnxRuntime()).InferenceSession).toBeDefined();
});
