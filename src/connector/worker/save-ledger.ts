/**
 * What one rank remembers of its requests' saves: jobs that are still queued or running, how many leading tokens are saved, which
 * requests are passed over while the pool is full, and the tokens that a later event must still tell.
 *
 * Request ids come back when a preempted request resumes, job numbers never do: so a job of an ended request is known by its
 * number and changes nothing for the new one.
 */
export interface SaveJobIdentity {
  readonly request: string;
  readonly job: number;
}

export interface RetryTokens {
  readonly start: number;
  readonly tokens: readonly number[];
}

/** What a job asks and tells of its request. */
export type SaveMemory = Pick<
  SaveLedger,
  | "isLive"
  | "ended"
  | "passesOver"
  | "savedTokens"
  | "recordSaved"
  | "refused"
  | "relieved"
  | "eventTokens"
  | "keepTokens"
>;

export class SaveLedger {
  readonly #jobs = new Map<string, Set<number>>();
  readonly #savedTokens = new Map<string, number>();
  readonly #passedOver = new Set<string>();
  readonly #retryTokens = new Map<string, RetryTokens>();
  #completed: number[] = [];
  #pressure = false;

  /** The pool was full at the last put that said anything about it. */
  get pressure(): boolean {
    return this.#pressure;
  }

  /** Requests that are passed over while the pool is full. */
  get passedOver(): readonly string[] {
    return [...this.#passedOver];
  }

  /** Leading saved tokens of every request that has some. */
  get saved(): ReadonlyMap<string, number> {
    return this.#savedTokens;
  }

  /** Before the job is queued, so that none runs unknown. */
  queued({ request, job }: SaveJobIdentity): void {
    const jobs = this.#jobs.get(request);
    if (jobs === undefined) this.#jobs.set(request, new Set([job]));
    else jobs.add(job);
  }

  isLive({ request, job }: SaveJobIdentity): boolean {
    return this.#jobs.get(request)?.has(job) === true;
  }

  /** The job reads its blocks no more. Every way out of a job leads here, or its blocks stay pinned. */
  ended({ request, job }: SaveJobIdentity): void {
    this.#jobs.get(request)?.delete(job);
    this.#completed.push(job);
  }

  /** Jobs that ended since the last call. */
  takeCompleted(): readonly number[] {
    const completed = this.#completed;
    this.#completed = [];
    return completed;
  }

  /** The request has finished or was preempted: what is still queued for it is stale. */
  forget(request: string): void {
    this.#jobs.delete(request);
    this.#passedOver.delete(request);
    this.#savedTokens.delete(request);
    this.#retryTokens.delete(request);
  }

  savedTokens(request: string): number {
    return this.#savedTokens.get(request) ?? 0;
  }

  recordSaved(identity: SaveJobIdentity, tokens: number): void {
    if (this.isLive(identity)) this.#savedTokens.set(identity.request, tokens);
  }

  passesOver(request: string): boolean {
    return this.#pressure && this.#passedOver.has(request);
  }

  /** The pool refused a value for want of space: the request waits until any put succeeds. */
  refused(identity: SaveJobIdentity): void {
    this.#pressure = true;
    if (this.isLive(identity)) this.#passedOver.add(identity.request);
  }

  /** A whole put succeeded: there is space again for everybody. */
  relieved(): void {
    this.#pressure = false;
    this.#passedOver.clear();
  }

  /** The tokens at hand for a job's events: those that failed jobs left, when the job's own go on from them. */
  eventTokens(identity: SaveJobIdentity, own: RetryTokens): RetryTokens {
    const left = this.isLive(identity) ? this.#retryTokens.get(identity.request) : undefined;
    return left !== undefined && left.start + left.tokens.length === own.start
      ? { start: left.start, tokens: [...left.tokens, ...own.tokens] }
      : own;
  }

  /** At a job's end: `left` is what its events could not tell, null when all is saved. */
  keepTokens(identity: SaveJobIdentity, left: RetryTokens | null): void {
    if (!this.isLive(identity)) return;
    if (left === null) this.#retryTokens.delete(identity.request);
    else this.#retryTokens.set(identity.request, left);
  }
}
