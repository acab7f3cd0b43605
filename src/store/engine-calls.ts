import type { EngineCallReply, EngineCallRequest, NativeBinding } from "../native/binding.ts";
import { EngineCode } from "./engine.ts";

/** What a call needs from outside. */
export interface EngineCallPorts {
  readonly native: Pick<NativeBinding, "engineCall">;
  readonly engineId: number;
  /** Runs `action` after `delayMs` unless the returned function is called first. Default: a timer of the event loop. */
  readonly after?: (delayMs: number, action: () => void) => () => void;
}

/** Which keys go: those that begin so, those of the deployments with this cache_prefix (`hasCachePrefix`), or all. */
export type RemovalScope =
  | { readonly operation: "removePrefix"; readonly prefix: string }
  | { readonly operation: "removeCachePrefix"; readonly prefix: string }
  | { readonly operation: "removeAll" };

export interface Removal {
  readonly removed: number;
  /** Keys of the scope that stay because they are in use; null: the engine does not tell. */
  readonly kept: number | null;
}

/** A value, or the EngineCode below 0 that says why there is none. */
export type EngineAnswer<Value> =
  | { readonly ok: true; readonly value: Value }
  | { readonly ok: false; readonly code: number; readonly text: string };

/**
 * Calls on single keys and on the pool as a whole, each ended after `timeoutMs`: with TIMED_OUT then, while the call itself goes
 * on and counts among `hungCalls`. Expected failures are answers; only wrong arguments throw. Any thread with an event loop.
 */
export class EngineCalls {
  readonly #ports: EngineCallPorts;

  constructor(ports: EngineCallPorts) {
    this.#ports = ports;
  }

  /** null: there is no such key. */
  async getValue(key: string, timeoutMs: number): Promise<EngineAnswer<Uint8Array | null>> {
    const reply = await this.call({ operation: "getValue", key }, timeoutMs);
    if (reply.status === EngineCode.OBJECT_NOT_FOUND) return { ok: true, value: null };
    return answer(reply, reply.value);
  }

  /**
   * Stores the value if the key is absent. "stored": by this call. "present": a value was there already, or the engine cannot tell
   * whose it is; read it.
   */
  async putValue(
    key: string,
    value: Uint8Array,
    timeoutMs: number,
  ): Promise<EngineAnswer<"stored" | "present">> {
    const reply = await this.call({ operation: "putValue", key, value }, timeoutMs);
    return answer(reply, reply.count === 1 ? "stored" : "present");
  }

  /** Never by force: what a reader has leased or is reading stays. `keepChecksums`: see RemovalManner. */
  async remove(
    scope: RemovalScope,
    keepChecksums: boolean,
    timeoutMs: number,
  ): Promise<EngineAnswer<Removal>> {
    const request =
      scope.operation === "removeCachePrefix"
        ? { ...scope, keepChecksums }
        : ({ ...scope, keepChecksums, force: false } as const);
    const reply = await this.call(request, timeoutMs);
    return answer(reply, { removed: reply.count, kept: reply.kept < 0 ? null : reply.kept });
  }

  /** false: there was no such key. Without `force` a key that a reader has leased stays, with an error that says so. */
  async removeKey(key: string, timeoutMs: number, force = false): Promise<EngineAnswer<boolean>> {
    const reply = await this.call({ operation: "removeKey", key, force }, timeoutMs);
    if (reply.status === EngineCode.OBJECT_NOT_FOUND) return { ok: true, value: false };
    return answer(reply, true);
  }

  /** How many keys were removed; values being read or written may stay. `force`: leased ones too, as with `removeAll`. */
  async removePrefix(
    prefix: string,
    timeoutMs: number,
    force = false,
  ): Promise<EngineAnswer<number>> {
    const reply = await this.call(
      { operation: "removePrefix", prefix, force, keepChecksums: false },
      timeoutMs,
    );
    return answer(reply, reply.count);
  }

  /** How many keys were removed. `force`: leased ones too, where the engine knows leases. */
  async removeAll(force: boolean, timeoutMs: number): Promise<EngineAnswer<number>> {
    const reply = await this.call(
      { operation: "removeAll", force, keepChecksums: false },
      timeoutMs,
    );
    return answer(reply, reply.count);
  }

  /** At most `limit`. Fails where the engine has no list of its keys (with Mooncake its master has). */
  async keys(
    prefix: string,
    limit: number,
    timeoutMs: number,
  ): Promise<EngineAnswer<readonly string[]>> {
    const reply = await this.call({ operation: "keys", prefix, limit }, timeoutMs);
    return answer(reply, reply.keys);
  }

  /** Whether the engine's peers answer. */
  async health(timeoutMs: number): Promise<EngineAnswer<true>> {
    return answer(await this.call({ operation: "health" }, timeoutMs), true);
  }

  /** The reply as it comes. */
  call(request: EngineCallRequest, timeoutMs: number): Promise<EngineCallReply> {
    const { native, engineId, after = afterOnLoop } = this.#ports;
    return new Promise((resolve) => {
      const cancel = after(timeoutMs, () => resolve(timedOut(request, timeoutMs)));
      try {
        native.engineCall(engineId, request, (reply) => {
          cancel();
          resolve(reply);
        });
      } catch (error) {
        cancel();
        throw error;
      }
    });
  }
}

function answer<Value>(reply: EngineCallReply, value: Value): EngineAnswer<Value> {
  const { status: code, text } = reply;
  return code < 0 ? { ok: false, code, text } : { ok: true, value };
}

function timedOut({ operation }: EngineCallRequest, timeoutMs: number): EngineCallReply {
  return {
    status: EngineCode.TIMED_OUT,
    count: 0,
    kept: 0,
    value: new Uint8Array(0),
    keys: [],
    text: `${operation} was not answered within ${timeoutMs} ms`,
  };
}

function afterOnLoop(delayMs: number, action: () => void): () => void {
  const timer = setTimeout(action, delayMs);
  return () => clearTimeout(timer);
}
