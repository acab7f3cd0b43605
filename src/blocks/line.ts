/** Words in a cache line. Counters of different writers lie at least this far apart. */
export const LINE_WORDS = 16;
