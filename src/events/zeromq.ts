import { MooncakeKvError } from "../errors.ts";

/*
 * The parts of the optional package that are used here, in words of our own: the declarations of this package must be readable
 * where zeromq is not installed.
 */
interface Socket {
  readonly closed: boolean;
  readonly lastEndpoint: string | null;
  ipv6: boolean;
  bind(endpoint: string): Promise<void>;
  connect(endpoint: string): void;
  close(): void;
}
interface Sender {
  send(frames: readonly (Uint8Array | string)[]): Promise<void>;
}
interface Receiver {
  receive(): Promise<Uint8Array[]>;
  [Symbol.asyncIterator](): AsyncIterator<Uint8Array[]>;
}
export interface PublisherSocket extends Socket, Sender {}
export interface SubscriberSocket extends Socket, Receiver {
  subscribe(...topics: (Uint8Array | string)[]): void;
}
export interface RouterSocket extends Socket, Sender, Receiver {}
export interface DealerSocket extends Socket, Sender, Receiver {}

interface SocketOptions {
  readonly sendHighWaterMark?: number;
  readonly receiveHighWaterMark?: number;
  readonly receiveTimeout?: number;
  readonly sendTimeout?: number;
  readonly linger?: number;
}
type SocketClass<Kind> = new (options?: SocketOptions) => Kind;

export interface Zeromq {
  readonly Publisher: SocketClass<PublisherSocket>;
  readonly Subscriber: SocketClass<SubscriberSocket>;
  readonly Router: SocketClass<RouterSocket>;
  readonly Dealer: SocketClass<DealerSocket>;
}

/** The optional package, imported on first use. Throws OPTIONAL_MISSING when it is absent or cannot be loaded here. */
export async function loadZeromq(
  load: () => Promise<Zeromq> = () => import("zeromq") as Promise<Zeromq>,
): Promise<Zeromq> {
  try {
    return await load();
  } catch (cause) {
    throw new MooncakeKvError({
      code: "OPTIONAL_MISSING",
      field: "zeromq",
      problem: "this optional package could not be loaded, and KV events travel over it",
      remedy: 'Run "npm install zeromq@6.8.0".',
      cause,
    });
  }
}
