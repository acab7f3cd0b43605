/** What each code means, when it comes, and what to do: one entry a code. scripts/errors.mjs finds the codes themselves in the sources. */

export const THROWN = {
  INVALID_VALUE: [
    "A value of the right type that cannot be meant.",
    "At start, or when a hook, a command or an event is given it.",
    "Correct what `field` names, as `remedy` says.",
  ],
  INVALID_TYPE: [
    "A value of the wrong type.",
    "As INVALID_VALUE.",
    "Give the type that `remedy` names.",
  ],
  MISSING: [
    "Something that is needed was not given.",
    "At start: a setting, a variable, a file.",
    "Give it, or use what `remedy` names in its place.",
  ],
  UNSUPPORTED: [
    "A valid wish that this build, platform or model does not serve.",
    "At start, or when a model is loaded.",
    "Choose what `remedy` lists.",
  ],
  CAPACITY: [
    "Tables, memory or open files do not suffice.",
    "At start, or when a request is added while all slots are in use.",
    "Try again when requests have ended, or make larger what `field` names.",
  ],
  NATIVE_MISSING: [
    "The native addon is not there or does not load.",
    "At start.",
    "Build it: `npm run build:native`.",
  ],
  OPTIONAL_MISSING: [
    "An optional package is not installed.",
    "At start of what needs it: server, model, KV events.",
    "Install it at the version that `remedy` names.",
  ],
  MODEL_INVALID: [
    "A model's files do not hold what they must.",
    "When a model is loaded.",
    "Fetch the model again, or use another.",
  ],
  WRONG_THREAD: [
    "The connector belongs to another thread.",
    "When a second thread attaches, or calls a hook.",
    "Call hooks from the thread that attached; detach there first.",
  ],
  NOT_IDLE: [
    "Requests or transfers are in flight.",
    "`detach`.",
    "Finish all requests and collect until `idle()`.",
  ],
  UNKNOWN_REQUEST: [
    "A request that is not there (any more).",
    "Where a call cannot go on without it.",
    "Name a request that was added and has not ended.",
  ],
  CLOSED: [
    "Whatever was called has been closed.",
    "After `stop`, `detach` or `close`, or when a thread died amid the call.",
    "Attach or open anew.",
  ],
  TIMEOUT: [
    "Somebody did not answer in time.",
    "Control calls, processes that are started, connections of commands.",
    "Look at the other side; try again.",
  ],
  BROKEN_INVARIANT: [
    "A state that must not be reachable: a fault of this package.",
    "Never, it is hoped.",
    "Report it with the trace or the seed.",
  ],
};

export const ENGINE_STATES = {
  UNREACHABLE: [
    "Master or engine does not answer, or was lost.",
    "At start and at any time; it passes by itself.",
    "Start master and owner; the engine is opened again with back-off.",
  ],
  CONFIGURATION: [
    "The engine refuses its settings.",
    "When it is opened. It does not pass by itself.",
    "Correct the setting that `field` names and start anew.",
  ],
  REGISTRATION_REFUSED: [
    "The engine cannot reach the KV memory.",
    "When memory is registered, above all over RDMA. It does not pass by itself.",
    "Raise the limit of locked memory, or use tcp.",
  ],
};

export const OUTCOMES = {
  NONE: ["Nothing was asked yet.", "", ""],
  IN_FLIGHT: ["The answer is on its way.", "", "Ask again with a later step."],
  HIT: ["The pool has blocks, or all were transferred.", "", ""],
  MISS: ["The pool has nothing of it.", "", "Compute."],
  ENGINE_ERROR: [
    "The engine failed for this request.",
    "Lookup, load or save.",
    "Compute. The log and `mooncake_kv_engine_*` say more.",
  ],
  ENGINE_DOWN: [
    "There is no engine now, or no actor.",
    "Lookup, load or save.",
    "Compute. It heals by itself unless the state is `failed`.",
  ],
  TIMEOUT: [
    "No answer within lookup_timeout_ms, load_timeout_ms or save_timeout_ms.",
    "",
    "Compute. Raise the limit if it comes often on a healthy pool.",
  ],
  IDENTITY_MISMATCH: [
    "Another member's settings differ: the pool is closed for this one.",
    "Lookup and save.",
    "Make the settings equal that `membership()` names.",
  ],
  NO_SPACE: ["The pool is full.", "Save.", "Nothing, or add memory to the owners."],
  CANCELLED: ["The request ended first.", "", ""],
  BACK_PRESSURE: ["The engine has its hands full.", "", "Nothing: it is tried again, or computed."],
};

export const RESETS = {
  BUSY: [
    "Requests hold blocks, or transfers are under way; nothing was removed.",
    "",
    "Finish or preempt requests, and try again.",
  ],
  SAVES_IN_FLIGHT: [
    "Saves did not end within save_timeout_ms; nothing was removed.",
    "",
    "Try again.",
  ],
  LOADS_IN_FLIGHT: [
    "Loads did not end within save_timeout_ms; nothing was removed.",
    "",
    "Try again.",
  ],
  KEYS_LEFT: ["Some keys were in use, or may have been.", "", "Try again: a lease lasts 10 s."],
  IDENTITY_MISMATCH: [
    "The pool is closed for this member: what is there is not its own.",
    "",
    "Make the settings equal that `membership()` names.",
  ],
  ENGINE: ["The engine did not do it.", "", "Look at the engine's state."],
};

export const ENGINE_CODES = {
  OK: ["Done.", "", ""],
  NO_AVAILABLE_HANDLE: ["No room in the pool.", "Put.", "Nothing: back-pressure."],
  BUFFER_SMALLER: [
    "A value is larger than a block.",
    "Get.",
    "Members differ: compare model, layout and block size.",
  ],
  BUFFER_LARGER: [
    "A value is smaller than a block.",
    "Get.",
    "Members differ: compare model, layout and block size.",
  ],
  OBJECT_NOT_FOUND: ["No such key.", "Get: it was evicted since the lookup.", "Compute."],
  ENGINE_ERROR: ["Any other failure of the engine.", "", "Compute; the log says more."],
  ENGINE_DOWN: ["The engine is not open.", "", "Compute."],
  CLOSED: ["The engine was closed.", "", ""],
  BAD_ENTRY: ["A batch entry that is none.", "", "Report it."],
  CHECKSUM_MISMATCH: [
    "The bytes are not those that were saved.",
    "Get with pool_verify.",
    "Compute; look at the owner's memory and network.",
  ],
  REGISTRATION_REFUSED: [
    "The engine cannot reach the KV memory.",
    "",
    "Raise the limit of locked memory, or use tcp.",
  ],
  OBJECT_HAS_LEASE: [
    "A put finds a value that was refused, and that a reader has leased: it cannot be replaced yet.",
    "Put.",
    "Nothing: a lease lasts 10 s, and the next save replaces it.",
  ],
  VALUE_UNREADABLE: [
    "The pool has the key and cannot read its bytes, now and hereafter.",
    "Get.",
    "Compute; look at the owner that holds it.",
  ],
  TIMED_OUT: [
    "A call was not answered in time; it may go on.",
    "",
    "Its blocks stay pinned until it does.",
  ],
  VALUE_TOO_LARGE: [
    "There is a value, but no call on single keys takes one of its size.",
    "",
    "Remove what others put under that key.",
  ],
  REMOVED_UNDER_READ: ["The value was removed while it was read.", "Get.", "Compute."],
};

export const HTTP = {
  invalid_value: [
    "A parameter's value, or the body, cannot be meant.",
    "",
    "Correct what `param` names.",
  ],
  invalid_type: [
    "A parameter, or the body, has the wrong type.",
    "",
    "Correct what `param` names.",
  ],
  invalid_json: ["The body is no JSON.", "", "Send valid JSON in UTF-8."],
  invalid_request: ["What came is no HTTP request.", "", "Correct the client."],
  invalid_url: ["The URL is not valid.", "", "Encode its characters."],
  unsupported_media_type: [
    "The body is not declared as JSON.",
    "",
    "Send `Content-Type: application/json`.",
  ],
  unknown_url: ["There is nothing at this URL.", "", "See the guide for the routes."],
  method_not_allowed: [
    "The route has no such method.",
    "",
    "Use one that the header `Allow` names.",
  ],
  model_not_found: ["This server has no model of that name.", "", "Ask `GET /v1/models`."],
  context_length_exceeded: [
    "Prompt and answer do not fit.",
    "",
    "Shorten the prompt or lower `max_tokens`.",
  ],
  server_overloaded: ["All slots and places are taken.", "", "Try again after `Retry-After`."],
  shutting_down: ["The server ends.", "", "Ask another instance."],
  generation_failed: [
    "The answer began and cannot be finished.",
    "",
    "Send the request again; the server's log says why.",
  ],
  chat_template_failed: [
    "The chat template of the model failed.",
    "",
    "Send messages that the template takes, or report it to the model's maker.",
  ],
  internal_error: ["A fault of the server.", "", "Look at its log; report it."],
  invalid_api_key: ["The key is missing or wrong.", "", "Send `Authorization: Bearer KEY`."],
  origin_not_allowed: ["A web page of another origin asks.", "", "`--allowed-origins`."],
  host_not_allowed: ["The header `Host` names another server.", "", "`--allowed-hosts`."],
  headers_too_large: ["The headers are too large.", "", "Send fewer."],
  request_too_large: ["The body is too large.", "", "Send less."],
  request_timeout: ["The request did not come whole in time.", "", "Send it again."],
};
