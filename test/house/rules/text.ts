import { lineAt } from "../source-file.ts";
import type { Breach, Rule } from "../source-file.ts";

export const LINES_MAX = 300;
/** Above this a file is listed, so that it is split before it must be. */
export const LINES_WARN = 200;

export function linesOf(text: string): number {
  return text.split("\n").length - (text.endsWith("\n") ? 1 : 0);
}

/** Small files: none above LINES_MAX lines. */
export const fileLength: Rule = (files) =>
  files.flatMap(({ path, text }) => {
    const lines = linesOf(text);
    return lines <= LINES_MAX
      ? []
      : [{ path, line: LINES_MAX + 1, problem: `${lines} lines, at most ${LINES_MAX}: split it` }];
  });

// Put together from parts, because this file is searched too.
const MACHINE_PATHS = ["work", "root", "tmp/bash"].map(
  (folder) => new RegExp(String.raw`(?<![\w.)}\]])/${folder}[/_]`, "g"),
);

/** Nothing points at the machine that it was written on. */
export const noMachinePaths: Rule = (files) =>
  files.flatMap(({ path, text }) =>
    MACHINE_PATHS.flatMap((pattern) =>
      [...text.matchAll(pattern)].map((match) => ({
        path,
        line: lineAt(text, match.index),
        problem: `${match[0]} is a path of one machine`,
      })),
    ),
  );

/** A test file begins with a comment that says its goal and method. */
export const testsSayTheirGoal: Rule = (files) =>
  files.flatMap(({ path, text }): Breach[] =>
    /^(?:\/\/|\/\*)/.test(text)
      ? []
      : [{ path, line: 1, problem: "does not begin with a comment on goal and method" }],
  );

/** A native test is never disabled by its name. */
export const noDisabledNativeTests: Rule = (files) =>
  files.flatMap(({ path, text }) =>
    [...text.matchAll(/\bDISABLED_\w*/g)].map((match) => ({
      path,
      line: lineAt(text, match.index),
      problem: `${match[0]}: every test runs, always`,
    })),
  );

/** Dependencies are pinned exactly, so that everyone tests what everyone runs. */
export const pinnedVersions: Rule = (files) =>
  files.flatMap(({ path, text }) => {
    const manifest = JSON.parse(text) as Record<string, Record<string, string> | undefined>;
    const groups = ["dependencies", "devDependencies", "optionalDependencies"];
    return groups.flatMap((group) =>
      Object.entries(manifest[group] ?? {})
        .filter(([, version]) => !/^\d+\.\d+\.\d+(?:-[\w.]+)?$/.test(version))
        .map(([name, version]) => ({
          path,
          line: lineAt(text, text.indexOf(`"${name}"`)),
          problem: `${name} ${version} is not an exact version`,
        })),
    );
  });
