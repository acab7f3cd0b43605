import { methodOf } from "./methods.ts";
import { represent, textOf } from "./text-of.ts";
import {
  LoopState,
  Namespace,
  PyTuple,
  Undefined,
  type Value,
  defined,
  fault,
  given,
  typeName,
} from "./values.ts";

/** `value.name`: an attribute or method first, then the item of that name. `only`: no item, as the filter `attr`. */
export function attributeOf(value: Value, name: string, only = false): Value {
  defined(value);
  if (value instanceof Namespace || value instanceof LoopState) {
    return given(value.attributes.get(name), missing(value, name));
  }
  const method = methodOf(value, name);
  if (method !== undefined) return method;
  if (value instanceof Map && !only) return given(value.get(name), missing(value, name));
  return missing(value, name);
}

/** `value[index]`: the item first, then an attribute of that name. */
export function itemOf(value: Value, index: Value): Value {
  defined(value);
  if (value instanceof Map) {
    const found = Array.isArray(index) || index instanceof Map ? undefined : value.get(index);
    if (found !== undefined) return found;
  }
  const items = indexed(value);
  if (items !== undefined && (typeof index === "number" || typeof index === "boolean")) {
    const found = items.at(Number(index));
    const none = new Undefined(`${typeName(value)} object has no element ${Number(index)}`);
    return given(found, none);
  }
  return typeof index === "string" ? attributeOf(value, index) : missing(value, index);
}

/** What lies in a list, a tuple or a text, by number; undefined for other values. */
function indexed(value: Value): readonly Value[] | undefined {
  if (Array.isArray(value)) return value;
  if (value instanceof PyTuple) return value.items;
  return typeof value === "string" ? Array.from(value) : undefined;
}

function missing(value: Value, name: Value): Undefined {
  const what =
    typeof name === "string" ? `attribute ${represent(name)}` : `element ${represent(name)}`;
  return new Undefined(`'${typeName(value)} object' has no ${what}`);
}

/** `value[start:stop:step]`. */
export function sliceOf(value: Value, bounds: readonly (Value | null)[]): Value {
  const items = indexed(value);
  if (items === undefined) {
    defined(value);
    return new Undefined(`'${typeName(value)}' object cannot be sliced`);
  }
  const [start = null, stop = null, stepGiven = null] = bounds.map((bound) => {
    if (bound === null || typeof bound === "number") return bound;
    throw fault("slice indices must be integers or None");
  });
  const step = stepGiven ?? 1;
  if (step === 0) throw fault("slice step cannot be zero");
  const count = items.length;
  const clamp = (bound: number, low: number, high: number): number =>
    Math.max(low, Math.min(high, bound < 0 ? bound + count : bound));
  const taken: Value[] = [];
  if (step > 0) {
    const end = clamp(stop ?? count, 0, count);
    for (let at = clamp(start ?? 0, 0, count); at < end; at += step) taken.push(items[at]!);
  } else {
    const end = stop === null ? -1 : clamp(stop, -1, count - 1);
    for (let at = clamp(start ?? count - 1, -1, count - 1); at > end; at += step)
      taken.push(items[at]!);
  }
  if (typeof value === "string") return taken.map(textOf).join("");
  return Array.isArray(value) ? taken : new PyTuple(taken);
}
