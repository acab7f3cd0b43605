// Where the wheel's programs lie; the engine asks the same interpreter.
export * from "../store/mooncake/interpreter.ts";
