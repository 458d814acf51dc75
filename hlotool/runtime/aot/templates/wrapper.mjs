// @ABOUT@

/* @NAME@: a library that hlotool built, as functions of typed arrays, for browsers and for Node (18 and later).

     import { load } from "./@NAME@.mjs";
     const model = await load();
     const result = model.@ENTRY@(...);

   Each entry is a function of the model: it takes an array for each argument and gives the result, or an array of them.
   What they are its `parameters` and `results` say.  Arrays are flat and row-major: f32 is a Float32Array, s64 a
   BigInt64Array and so on; pred is a Uint8Array of zeros and ones; f16 and bf16 are a Float32Array (arguments may be
   their bits, too: a Uint16Array); smaller floats are their bits; complex numbers are pairs.  Arguments may be arrays
   of numbers as well, nested or flat, and scalars numbers; of pred whatever is not zero is true. */

const NAME = "@NAME@";
const ABI = @ABI@;
const ALIGNMENT = @ALIGNMENT@;
const CODES = @CODES@;

/* What a call gave back: its `code`, and in words. */
export class LibraryError extends Error {
  constructor(code, text, options) {
    super(text, options);
    this.name = "LibraryError";
    this.code = code;
  }
}

/* The model, of the library and its weights: addresses (URL or text), bytes, or a compiled WebAssembly.Module.  Without
   any they are what lies beside this file. */
export async function load(source = new URL("./" + NAME + ".wasm", import.meta.url), weights) {
  if (new Uint8Array(Uint16Array.of(1).buffer)[0] !== 1)
    throw new LibraryError(CODES.PROCESSOR, "here numbers have their high bytes first, in WebAssembly they have not");
  if (typeof source === "string") source = await addressOf(source);
  const module = source instanceof WebAssembly.Module ? source : await compiled(await bytesOf(source));
  const about = aboutOf(module);
  if (weights === undefined && about.weights !== null && source instanceof URL)
    weights = new URL("./" + NAME + ".weights", source);
  const library = new Library(about);
  const imports = { hlotool: { call: (user, call, arrays) => library.called(call >>> 0, arrays >>> 0) } };
  library.start((await WebAssembly.instantiate(module, imports)).exports);
  if (weights !== undefined) library.setWeights(await bytesOf(weights));
  return library.model;
}

async function compiled(bytes) {
  try {
    return await WebAssembly.compile(bytes);
  } catch (cause) {
    const what = isModule(bytes) ? "this engine does not take the code" : "this is no module of WebAssembly";
    throw new LibraryError(CODES.PROCESSOR, what + ": " + cause.message, { cause });
  }
}

function isModule(bytes) {
  return bytes.length > 8 && [0, 97, 115, 109, 1, 0, 0, 0].every((byte, n) => bytes[n] === byte);
}

/* The library's description of itself. */
function aboutOf(module) {
  for (const section of WebAssembly.Module.customSections(module, "hlotool")) {
    const head = new DataView(section);
    const text = new Uint8Array(section, 24, head.getUint32(16, true));
    const about = JSON.parse(new TextDecoder().decode(text));
    if (about.name === NAME && about.abi === ABI) return about;
    const [found, wanted] = [about, { name: NAME, abi: ABI }].map((one) => one.name + ", version " + one.abi);
    throw new LibraryError(0, "this is the library " + found + " of the interface, not " + wanted);
  }
  throw new LibraryError(0, "this is no library of hlotool");
}

/* The address that a text says, from where the program is. */
async function addressOf(text) {
  const here = globalThis.document?.baseURI ?? globalThis.location?.href;
  return new URL(text, here ?? (await import("node:url")).pathToFileURL(process.cwd() + "/"));
}

async function bytesOf(source) {
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  const address = source instanceof URL ? source : await addressOf(source);
  try {
    if (address.protocol === "file:" && globalThis.process?.versions?.node)
      return new Uint8Array(await (await import("node:fs/promises")).readFile(address));
    const answer = await fetch(address);
    if (!answer.ok) throw new Error((answer.status + " " + answer.statusText).trim());
    return new Uint8Array(await answer.arrayBuffer());
  } catch (cause) {
    throw new LibraryError(0, "cannot read " + address + ": " + cause.message, { cause });
  }
}

/* ---- arrays */

const ARRAYS = {
  pred: Uint8Array, s1: Int8Array, s2: Int8Array, s4: Int8Array, s8: Int8Array, s16: Int16Array, s32: Int32Array,
  s64: BigInt64Array, u1: Uint8Array, u2: Uint8Array, u4: Uint8Array, u8: Uint8Array, u16: Uint16Array,
  u32: Uint32Array, u64: BigUint64Array, f16: Float32Array, bf16: Float32Array, f32: Float32Array, f64: Float64Array,
  c64: Float32Array, c128: Float64Array,
};

/* An argument or result: its `name`, HLO's `type`, its `shape`, the `array` that it is, and how many elements that
   has. */
class Parameter {
  constructor(row) {
    this.name = row.name;
    this.type = row.type;
    this.shape = row.dimensions;
    this.array = (ARRAYS[row.type] ?? Uint8Array).name;
    this.length = row.dimensions.reduce((size, extent) => size * extent, isComplex(row) ? 2 : 1);
    this.alias = row.alias ?? -1;
    this.bytes = row.bytes;
    Object.freeze(this);
  }

  toString() {
    return this.name + ": " + this.type + "[" + this.shape.join() + "]";
  }
}

function isComplex(parameter) {
  return /^c/.test(parameter.type);
}

/* The elements as they lie in memory; LibraryError where a value is none of a parameter. */
function stored(value, parameter, what) {
  const wrong = (text) => {
    throw new LibraryError(CODES.COUNT, what + ", " + parameter + ": " + text);
  };
  const Kind = ARRAYS[parameter.type] ?? Uint8Array;
  const isHalf = parameter.type === "f16" || parameter.type === "bf16";
  let elements = value;
  if (ArrayBuffer.isView(value)) {
    const kind = value[Symbol.toStringTag];
    if (kind !== Kind.name && !(isHalf && kind === "Uint16Array"))
      wrong("expected " + article(Kind.name) + ", got " + article(kind ?? "DataView"));
    if (value.length !== parameter.length)
      wrong("expected " + parameter.length + " elements, got " + value.length);
    if (isHalf && kind === "Uint16Array") return value;
  } else {
    const shape = isComplex(parameter) ? [...parameter.shape, 2] : parameter.shape;
    const flat = flattened(value, shape, parameter.length, wrong);
    elements = new Kind(parameter.length);
    const isBig = Kind === BigInt64Array || Kind === BigUint64Array;
    const isFloat = Kind === Float32Array || Kind === Float64Array;
    for (let n = 0; n < flat.length; n++) {
      const one = typeof flat[n] === "boolean" ? Number(flat[n]) : flat[n];
      if (!/^(number|bigint)$/.test(typeof one)) wrong("element " + n + " is no number: " + String(flat[n]));
      if (isFloat) {
        elements[n] = Number(one);
      } else {
        if (!isBig) elements[n] = Number(one);
        else if (typeof one === "bigint" || Number.isInteger(one)) elements[n] = BigInt(one);
        if (elements[n] != one) wrong("element " + n + " is none of this type: " + String(one));
      }
    }
  }
  const bits = /^([su])([124])$/.exec(parameter.type);
  if (parameter.type === "pred") return elements.map(Boolean);
  if (isHalf) return Uint16Array.from(elements, parameter.type === "f16" ? toFloat16 : toBfloat16);
  if (bits !== null) {
    const least = bits[1] === "s" ? -(2 ** (bits[2] - 1)) : 0;
    const at = elements.findIndex((one) => one < least || one >= least + 2 ** bits[2]);
    if (at >= 0) wrong("element " + at + " is none of this type: " + elements[at]);
  }
  return elements;
}

function article(name) {
  return (/^[AEIOU](?!int)/.test(name) ? "an " : "a ") + name;
}

/* The numbers of an array, nested as its shape says or flat, or of a scalar. */
function flattened(value, shape, length, wrong) {
  if (!Array.isArray(value)) {
    if (shape.length && length !== 1) wrong("expected an array, got " + (value === null ? "null" : typeof value));
    return [value];
  }
  if (!value.some(Array.isArray)) {
    if (value.length !== length) wrong("expected " + length + " elements, got " + value.length);
    return value;
  }
  const walk = (part, depth) => {
    if (depth === shape.length) return [part];
    if (!Array.isArray(part) || part.length !== shape[depth])
      wrong("dimension " + depth + " has " + shape[depth] + " elements, got " + (part?.length ?? typeof part));
    return part.flatMap((inner) => walk(inner, depth + 1));
  };
  return walk(value, 0);
}

/* The elements at an address, as a copy. */
function copied(buffer, address, parameter) {
  const Kind = ARRAYS[parameter.type] ?? Uint8Array;
  const bytes = buffer.slice(address, address + parameter.bytes);
  const narrow = /^s([24])$/.exec(parameter.type);
  if (narrow !== null) return new Kind(bytes).map((one) => (one << (32 - narrow[1])) >> (32 - narrow[1]));
  if (parameter.type !== "f16" && parameter.type !== "bf16") return new Kind(bytes);
  return Float32Array.from(new Uint16Array(bytes), parameter.type === "f16" ? fromFloat16 : fromBfloat16);
}

const float = new Float32Array(1);
const word = new Uint32Array(float.buffer);

function fromBfloat16(bits) {
  word[0] = bits << 16;
  return float[0];
}

/* To the nearest, of two to the even one. */
function toBfloat16(number) {
  float[0] = number;
  if (Number.isNaN(number)) return ((word[0] >>> 16) & 0x8000) | 0x7fc0;
  return (word[0] + 0x7fff + ((word[0] >>> 16) & 1)) >>> 16;
}

function fromFloat16(bits) {
  const exponent = (bits >> 10) & 31, fraction = bits & 1023, sign = bits >> 15 ? -1 : 1;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 25) * (1024 + fraction) : 2 ** -24 * fraction);
}

/* Of an f32, to the nearest, of two to the even one. */
function toFloat16(number) {
  float[0] = number;
  const sign = (word[0] >>> 16) & 0x8000, size = Math.abs(float[0]);
  if (Number.isNaN(size)) return sign | 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  const exponent = Math.max(((word[0] >>> 23) & 255) - 127, -14);
  const steps = size / 2 ** (exponent - 10), whole = Math.floor(steps), rest = steps - whole;
  const rounded = whole + (rest > 0.5 || (rest === 0.5 && whole % 2 === 1) ? 1 : 0);
  return sign | ((exponent + 14) * 1024 + rounded); // the highest bit of 1024 and more carries into the exponent
}

/* ---- calls */

class Library {
  constructor(about) {
    this.about = about;
    this.entries = about.entries.map((entry) => ({
      name: entry.name,
      parameters: entry.arguments.map((row) => new Parameter(row)),
      results: entry.results.map((row) => new Parameter(row)),
      workspace: entry.workspace_bytes,
    }));
    this.running = false;
    this.functions = Object.create(null);
    this.model = { about, functions: this.functions, setWeights: (bytes) => this.setWeights(bytes) };
    for (const entry of this.entries) {
      const call = (...values) => this.run(entry, values);
      this.model[entry.name] = Object.assign(call, { parameters: entry.parameters, results: entry.results });
    }
  }

  /* Puts the instance to use: behind its own data come the weights, the context of calls, their tables, and arrays. */
  start(exports) {
    this.exports = exports;
    this.memory = exports.memory;
    this.top = aligned(exports.__heap_base.value >>> 0);
    this.weights = this.room(this.about.weights?.bytes ?? 0);
    this.context = this.room(32);
    const words = this.about.random.length;
    this.random = this.room(8 * words);
    this.grow(this.top);
    if (words) {
      const first = this.word(exports[NAME + "_library"]() + 32);
      this.seen.bytes.copyWithin(this.random, first, first + 8 * words);
      this.setWord(this.context + 4, this.random);
    }
    const functions = exports[NAME + "__functions"];
    if (functions !== undefined) this.setWord(this.context + 12, functions.value);
    this.tables = this.top;
  }

  room(bytes) {
    const found = this.top;
    this.top = aligned(found + bytes);
    return found;
  }

  grow(end) {
    const missing = end - this.memory.buffer.byteLength;
    if (missing <= 0) return;
    try {
      this.memory.grow(Math.ceil(missing / 65536));
    } catch (cause) {
      throw new LibraryError(CODES.SHORT, "there is no memory for " + end + " bytes", { cause });
    }
  }

  /* The memory as bytes and as words; it is another buffer once it has grown. */
  get seen() {
    const buffer = this.memory.buffer;
    if (this.views?.buffer !== buffer)
      this.views = { buffer, bytes: new Uint8Array(buffer), words: new Uint32Array(buffer) };
    return this.views;
  }

  word(address) {
    return this.seen.words[address >>> 2];
  }

  setWord(address, value) {
    this.seen.words[address >>> 2] = value;
  }

  text(address) {
    const { bytes } = this.seen;
    return new TextDecoder().decode(bytes.slice(address, bytes.indexOf(0, address)));
  }

  /* Puts elements to an address. */
  put(array, address) {
    this.seen.bytes.set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength), address);
  }

  check(code) {
    if (code) throw new LibraryError(code, this.text(this.exports[NAME + "_message"](code)));
  }

  /* Takes these weights from now on.  Without weights of its own the library leaves them alone; after weights that are
     wrong it has none. */
  setWeights(given) {
    if (this.running) throw new LibraryError(CODES.FAILED, "the model is running");
    if (this.about.weights === null) return;
    const bytes = ArrayBuffer.isView(given)
      ? new Uint8Array(given.buffer, given.byteOffset, given.byteLength) : new Uint8Array(given);
    this.setWord(this.context, 0);
    this.put(bytes.subarray(0, this.about.weights.bytes), this.weights);
    this.check(this.exports[NAME + "_weights_check"](this.weights, bytes.length));
    this.setWord(this.context, this.weights);
  }

  run(entry, values) {
    if (this.running)
      throw new LibraryError(CODES.FAILED, "the model is running: it cannot be called by its functions");
    if (values.length !== entry.parameters.length) {
      const wanted = entry.parameters.length + " argument" + (entry.parameters.length === 1 ? "" : "s");
      const call = entry.name + "(" + entry.parameters.join(", ") + ")";
      throw new LibraryError(CODES.COUNT, "expected " + wanted + ": " + call);
    }
    const given = values.map((value, n) => stored(value, entry.parameters[n], "argument " + n));
    const { taken, put, workspace, inputs, outputs } = (entry.places ??= this.placesOf(entry));
    given.forEach((array, n) => {
      this.put(array, inputs[n]);
      this.setWord(taken + 4 * n, inputs[n]);
    });
    outputs.forEach((address, n) => this.setWord(put + 4 * n, address));
    this.running = true;
    this.thrown = undefined;
    try {
      const code = this.exports[NAME + "_" + entry.name](taken, put, workspace, entry.workspace, this.context);
      if (this.thrown !== undefined) throw this.thrown.error;
      this.check(code);
    } finally {
      this.running = false;
    }
    const found = entry.results.map((result, n) => copied(this.memory.buffer, outputs[n], result));
    return found.length === 1 ? found[0] : found;
  }

  /* Where the tables of an entry, its workspace and its arrays are, which entries have the same room for. */
  placesOf(entry) {
    this.top = this.tables;
    const taken = this.room(4 * entry.parameters.length), put = this.room(4 * entry.results.length);
    const workspace = this.room(entry.workspace);
    const inputs = entry.parameters.map((parameter) => this.room(parameter.bytes));
    const outputs = entry.results.map((result) => result.alias < 0 ? this.room(result.bytes) : inputs[result.alias]);
    this.grow(this.top);
    return { taken, put, workspace, inputs, outputs };
  }

  /* What the code asks of its context: the structure `call` describes it; the slots of the table `arrays` have eight
     bytes. */
  called(call, arrays) {
    try {
      const name = this.about.context_functions[this.word(call + 28)];
      const operands = this.described(call + 12, call + 20), results = this.described(call + 16, call + 24);
      if (this.functions[name] === undefined)
        throw new LibraryError(CODES.FAILED, "nothing was put into functions[" + JSON.stringify(name) + "]");
      const inputs = operands.map((operand, n) => copied(this.memory.buffer, this.word(arrays + 8 * n), operand));
      let found = this.functions[name](...inputs);
      if (results.length === 1) found = [found];
      if (!Array.isArray(found)) found = found === undefined ? [] : [found];
      const what = "functions[" + JSON.stringify(name) + "]";
      if (found.length !== results.length)
        throw new LibraryError(CODES.COUNT, what + ": expected " + results.length + " results, got " + found.length);
      found.forEach((value, n) => {
        this.put(stored(value, results[n], what), this.word(arrays + 8 * (operands.length + n)));
      });
    } catch (error) {
      this.thrown = { error };
      return 1;
    }
    return 0;
  }

  /* The arrays whose table, and whose number, are at these addresses. */
  described(table, count) {
    const rows = this.word(table);
    return Array.from({ length: this.word(count) }, (_, n) => {
      const row = rows + 40 * n, dimensions = this.word(row + 8);
      return new Parameter({
        name: this.text(this.word(row)),
        type: this.text(this.word(row + 4)),
        dimensions: Array.from({ length: this.word(row + 24) }, (_, axis) => this.word(dimensions + 8 * axis)),
        bytes: this.word(row + 16),
      });
    });
  }
}

function aligned(address) {
  return Math.ceil(address / ALIGNMENT) * ALIGNMENT;
}
