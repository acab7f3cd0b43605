const ROWS_MAX = 100;
const CELL_CHARACTERS_MAX = 1000;

/**
 * Lines of a table: the first column to the left, two spaces between columns, two in front. Cells come from anywhere: control
 * characters, which a terminal would obey, are replaced, and of many rows the first hundred are shown.
 */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const shown = [head, ...rows.slice(0, ROWS_MAX)].map((row) => row.map(plain));
  const widths = head.map((_title, column) =>
    Math.max(...shown.map((row) => row[column]?.length ?? 0)),
  );
  const lines = shown.map((row) =>
    `  ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ")}`.trimEnd(),
  );
  if (rows.length > ROWS_MAX) lines.push(`  and ${rows.length - ROWS_MAX} more`);
  return lines;
}

function plain(cell: string): string {
  const text =
    cell.length > CELL_CHARACTERS_MAX ? `${cell.slice(0, CELL_CHARACTERS_MAX - 3)}...` : cell;
  return text.replaceAll(/\p{Cc}/gu, "\uFFFD");
}
