/**
 * Goal: a part that cannot be closed leaves no other one open, and is told.
 * Method: steps that fail between steps that do not.
 */
import { expect, test } from "vitest";
import { closeInOrder } from "../../src/serving/close-in-order.ts";
import { errorText } from "../../src/cli/error-text.ts";
import { MooncakeKvError } from "../../src/errors.ts";

test("all steps run, in order; the first error is thrown", async () => {
  const closed: string[] = [];
  const step =
    (name: string, fails = false) =>
    async (): Promise<void> => {
      await new Promise(setImmediate);
      closed.push(name);
      if (fails) throw new Error(name);
    };
  const steps = [step("server"), step("trace", true), step("events", true), step("last")];
  await expect(closeInOrder(steps)).rejects.toThrow("trace");
  expect(closed).toEqual(["server", "trace", "events", "last"]);
  await expect(closeInOrder([step("one")])).resolves.toBe(undefined);
});

test("the command line tells an error of ours as its sentence, without the name of a class", () => {
  const details = { code: "MISSING", field: "model", problem: "is not given" } as const;
  const error = new MooncakeKvError({ ...details, remedy: "Give one." });
  expect(errorText(error)).toBe("model: is not given. Give one.");
  expect(errorText(new TypeError("inner"))).toMatch(/^TypeError: inner\n\s+at /);
  expect(errorText("text")).toBe("text");
});
