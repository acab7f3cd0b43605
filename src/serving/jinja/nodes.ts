/** Syntax of a template. `line` is where an expression that may fail stands. */
export type Expression =
  | { readonly type: "const"; readonly value: string | number | boolean | null }
  | { readonly type: "float"; readonly value: number }
  | { readonly type: "name"; readonly name: string }
  | { readonly type: "list" | "tuple" | "concat"; readonly items: readonly Expression[] }
  | { readonly type: "dict"; readonly entries: readonly (readonly [Expression, Expression])[] }
  | { readonly type: "attribute"; readonly object: Expression; readonly name: string }
  | { readonly type: "item"; readonly object: Expression; readonly index: Expression }
  | {
      readonly type: "slice";
      readonly object: Expression;
      readonly bounds: readonly (Expression | null)[];
    }
  | {
      readonly type: "call";
      readonly callee: Expression;
      readonly given: Given;
      readonly line: number;
    }
  | {
      readonly type: "filter";
      readonly name: string;
      readonly operand: Expression;
      readonly given: Given;
      readonly line: number;
    }
  | {
      readonly type: "test";
      readonly name: string;
      readonly operand: Expression;
      readonly given: Given;
      readonly line: number;
    }
  | { readonly type: "not" | "negative" | "positive"; readonly operand: Expression }
  | { readonly type: "and" | "or"; readonly left: Expression; readonly right: Expression }
  | {
      readonly type: "binary";
      readonly operator: string;
      readonly left: Expression;
      readonly right: Expression;
      readonly line: number;
    }
  | {
      readonly type: "compare";
      readonly first: Expression;
      readonly rest: readonly (readonly [string, Expression])[];
      readonly line: number;
    }
  | {
      readonly type: "condition";
      readonly test: Expression;
      readonly chosen: Expression;
      readonly otherwise: Expression | null;
    };

export interface Given {
  readonly positional: readonly Expression[];
  readonly keywords: readonly (readonly [string, Expression])[];
  readonly spread: Expression | null;
  readonly keywordSpread: Expression | null;
}

export const NOTHING_GIVEN: Given = {
  positional: [],
  keywords: [],
  spread: null,
  keywordSpread: null,
};

export type Target =
  | { readonly type: "name"; readonly name: string }
  | { readonly type: "tuple"; readonly items: readonly Target[] }
  | { readonly type: "namespace"; readonly name: string; readonly attribute: string };

export interface Parameter {
  readonly name: string;
  readonly otherwise: Expression | null;
}

/** One filter of a chain that is put on a block's output. */
export interface BlockFilter {
  readonly name: string;
  readonly given: Given;
  readonly line: number;
}

export type Statement =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "output"; readonly value: Expression; readonly line: number }
  | {
      readonly type: "if";
      readonly test: Expression;
      readonly body: Body;
      readonly otherwise: Body;
    }
  | {
      readonly type: "for";
      readonly target: Target;
      readonly iterable: Expression;
      readonly test: Expression | null;
      readonly body: Body;
      readonly otherwise: Body;
      readonly line: number;
    }
  | {
      readonly type: "set";
      readonly target: Target;
      readonly value: Expression;
      readonly line: number;
    }
  | {
      readonly type: "set_block";
      readonly target: Target;
      readonly filters: readonly BlockFilter[];
      readonly body: Body;
      readonly line: number;
    }
  | {
      readonly type: "macro";
      readonly name: string;
      readonly parameters: readonly Parameter[];
      readonly body: Body;
    }
  | {
      readonly type: "call_block";
      readonly call: Expression;
      readonly parameters: readonly Parameter[];
      readonly body: Body;
      readonly line: number;
    }
  | { readonly type: "filter_block"; readonly filters: readonly BlockFilter[]; readonly body: Body }
  | {
      readonly type: "with";
      readonly assignments: readonly (readonly [Target, Expression])[];
      readonly body: Body;
      readonly line: number;
    }
  | { readonly type: "scope"; readonly body: Body }
  | { readonly type: "break" | "continue" };

export type Body = readonly Statement[];
