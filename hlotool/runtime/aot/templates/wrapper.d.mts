// @ABOUT@

/** Numbers as arrays of JavaScript, nested or flat; a scalar is one. */
export type Numbers = number | bigint | boolean | Numbers[];

/** An argument or result: HLO's type, the typed array that it is, and how many elements that has. */
export interface Parameter {
  readonly name: string;
  readonly type: string;
  readonly shape: readonly number[];
  readonly array: string;
  readonly length: number;
  readonly bytes: number;
  /** Of a result: the argument whose memory it takes; of an argument: the result that it becomes; or -1. */
  readonly alias: number;
}

export type Entry<Call> = Call & { readonly parameters: readonly Parameter[]; readonly results: readonly Parameter[] };

export type Elements =
  | Uint8Array | Int8Array | Uint16Array | Int16Array | Uint32Array | Int32Array | BigUint64Array | BigInt64Array
  | Float32Array | Float64Array;

export interface Model {
@ENTRIES@
  /** What the library says of itself, as the manifest does. */
  readonly about: Record<string, unknown>;
  /** What the code asks for, by the names of custom calls and opcodes: functions of arrays that give arrays. */
  readonly functions: Record<string, (...operands: Elements[]) => Elements | Numbers | (Elements | Numbers)[]>;
  /** Takes these weights, a whole file, from now on. */
  setWeights(bytes: ArrayBuffer | Uint8Array): void;
}

/** What is wrong with a call or with what it was given: a code of the library, and in words. */
export class LibraryError extends Error {
  readonly code: number;
}

type Source = URL | string | ArrayBuffer | ArrayBufferView;

/** The model, of the library and its weights; without any they are what lies beside this file. */
export function load(source?: Source | WebAssembly.Module, weights?: Source): Promise<Model>;
