import type { FastifyInstance } from "fastify";
import type { MembershipStatus } from "../../actors/runtime/identity-check.ts";
import type { Log } from "../../actors/step.ts";
import type { CacheResetAnswer, CacheResetRequest } from "../cache-reset.ts";
import { answer, type AnswerRoutePorts } from "./answer-route.ts";
import { parseChat, parseCompletion, unknownModel } from "./answer-request.ts";
import { CHAT_FORMAT } from "./chat-format.ts";
import { parseCacheReset } from "./cache-reset-request.ts";
import { COMPLETION_FORMAT } from "./completion-format.ts";
import type { IgnoredField } from "./known-fields.ts";

export interface RoutePorts extends AnswerRoutePorts {
  /** Every actor that should run does. */
  readonly healthy: () => boolean;
  /** State of the storage engine; requests are computed without it, so it does not make the server unhealthy. */
  readonly engineState: () => string;
  /** Whether this member may use the pool; where it may not, it computes. */
  readonly membership: () => MembershipStatus;
  /** The text of a Prometheus scrape and its content type. */
  readonly metrics: { readonly contentType: string; text(): Promise<string> };
  /** The state of everything, JSON-able. */
  readonly dumpState: () => Promise<object>;
  /** For POST /reset_prefix_cache; null: there is no such route. */
  readonly resetCache: ((request: CacheResetRequest) => Promise<CacheResetAnswer>) | null;
  /** Adds POST /debug/drop_local_cache and GET /debug/state. */
  readonly debugRoutes: boolean;
}

export function addRoutes(server: FastifyInstance, ports: RoutePorts): void {
  const { frontEnd, model, random, log } = ports;
  const world = { model, random, ignored: tellOnce(log) };
  const created = Math.floor(ports.wallClockMs() / 1000);
  const card = {
    id: model.modelName,
    object: "model",
    created,
    owned_by: "mooncake-kv",
    max_model_len: model.contextTokensMax,
  };

  server.post("/v1/completions", async (request, reply) =>
    answer(ports, COMPLETION_FORMAT, await parseCompletion(request.body, world), reply),
  );
  server.post("/v1/chat/completions", async (request, reply) =>
    answer(ports, CHAT_FORMAT, await parseChat(request.body, world), reply),
  );

  server.get("/v1/models", () => ({ object: "list", data: [card] }));
  server.get<{ Params: { "*": string } }>("/v1/models/*", (request) => {
    // A wildcard, because names of models may hold slashes.
    const asked = request.params["*"];
    if (asked !== model.modelName) throw unknownModel(asked, model);
    return card;
  });

  server.get("/health", (_request, reply) => {
    const healthy = ports.healthy();
    const { membership, differences, problem } = ports.membership();
    return reply.code(healthy ? 200 : 503).send({
      status: healthy ? "ok" : "unhealthy",
      engine: ports.engineState(),
      pool: membership,
      ...(differences.length === 0 ? {} : { differences }),
      ...(problem === undefined ? {} : { poolProblem: problem }),
    });
  });
  server.get("/metrics", async (_request, reply) =>
    reply.type(ports.metrics.contentType).send(await ports.metrics.text()),
  );

  const { resetCache } = ports;
  if (resetCache !== null)
    server.post("/reset_prefix_cache", (request) =>
      resetCache(parseCacheReset(request.query, request.body)),
    );

  if (ports.debugRoutes) {
    server.post("/debug/drop_local_cache", async () => ({
      blocks: await frontEnd.dropLocalCache(),
    }));
    server.get("/debug/state", () => ports.dumpState());
  }
}

/** One line for each field, however many requests have it; the fields are few, so the set is bounded. */
function tellOnce(log: Log): IgnoredField {
  const told = new Set<string>();
  return (field) => {
    if (told.has(field)) return;
    told.add(field);
    log.warn({ field }, "requests have a field that changes nothing here; it is told once");
  };
}
