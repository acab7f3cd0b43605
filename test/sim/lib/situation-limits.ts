/**
 * In how many of the 1,000 fixed seeds each situation has to occur at least: about half of what was counted when this was
 * written. A run that no longer reaches a situation says nothing about it.
 */
export const SITUATIONS_LEAST: Readonly<Record<string, number>> = {};
