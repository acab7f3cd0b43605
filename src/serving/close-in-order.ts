/**
 * Runs what closes the parts of something, one after the other and each to its end, whatever happened to those before it. Throws
 * the first error when all are through.
 */
export async function closeInOrder(steps: readonly (() => Promise<unknown>)[]): Promise<void> {
  const errors: unknown[] = [];
  for (const step of steps) {
    try {
      await step();
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) throw errors[0];
}
