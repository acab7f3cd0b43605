/** What an actor's worker thread and the runtime's thread say to each other beside the mailboxes: nothing of it is hot. */

/** Life-cycle messages from an actor's worker thread to the supervisor. */
export type LifeCycle =
  | { readonly lifeCycle: "ready" }
  | { readonly lifeCycle: "stopped"; readonly inFlight: number }
  | { readonly lifeCycle: "failed"; readonly message: string };

/** From an actor's thread: empty the pool, on behalf of another process. Answered by ResetAnswered, if the thread lives so long. */
export interface ResetRequest {
  readonly request: "resetPool";
  /** The asking thread's number for it. */
  readonly id: number;
  /** Runtime time; nobody waits for the answer any more then. */
  readonly deadlineMs: number;
}

/** From the supervisor to an actor's thread: throw in the middle of the next step that takes a message. */
export interface FailOrder {
  readonly order: "fail";
}

export interface ResetAnswered {
  readonly order: "resetAnswered";
  readonly id: number;
  readonly acknowledged: boolean;
}

export type FromThread = LifeCycle | ResetRequest;
export type ToThread = FailOrder | ResetAnswered;
