/* What is refused, and how: with the library model.mjs, whose entry takes f32[2,3], s8[2], pred[2], s64[], c64[1], s4[2]
   and f16[2], and gives all of them. */

import { readFile } from "node:fs/promises";
import { LibraryError, load } from "./model.mjs";

const bytes = await readFile("model.wasm");
const weights = new Uint8Array(await readFile("model.weights"));

async function says(action) {
  try {
    console.log("no error", await action());
  } catch (error) {
    console.log(error instanceof LibraryError ? error.code : error.constructor.name, error.message);
  }
}

const model = await load(bytes, weights);
const right = [new Float32Array(6), new Int8Array(2), new Uint8Array(2), 5n, new Float32Array(2), [7, -8], [1, 2]];
const but = (number, value) => () => model.run(...put(number, value));
const put = (number, value) => right.map((one, n) => (n === number ? value : one));
const shown = (array) => array.constructor.name + ":" + Array.from(array).join();

console.log(model.run(...right).map(shown).join(" "));
const nested = [[[1, 2, 3], [4, 5, 6]], [-128, 127], [true, false], 9007199254740993n, [[1, -1]], [0, 1], [65504, -0.5]];
console.log(model.run(...nested).map(shown).join(" "));
console.log(shown(model.run(...put(2, Uint8Array.of(7, 0)))[2]), shown(model.run(...put(3, 5))[3]));
await says(() => model.run());
await says(but(0, new Float64Array(6)));
await says(but(0, new Float32Array(5)));
await says(but(0, new DataView(new ArrayBuffer(24))));
await says(but(0, [1, 2, 3]));
await says(but(0, [[1, 2], [3, 4]]));
await says(but(0, null));
await says(but(0, [1, 2, "3", 4, 5, 6]));
await says(but(1, [128, 0]));
await says(but(1, [1.5, 0]));
await says(but(2, ["yes", 0]));
await says(but(3, 1.5));
await says(but(3, 2n ** 63n));
await says(but(5, Int8Array.of(8, 0)));
await says(but(6, new Uint32Array(2)));

const damaged = (at, value) => {
  const copy = weights.slice();
  copy[at] ^= value;
  return copy;
};
const other = await load(bytes);
await says(() => other.run(...right));
await says(() => other.setWeights(new Uint8Array(3)));
await says(() => other.setWeights(weights.subarray(0, weights.length - 8)));
await says(() => other.setWeights(new Uint8Array([...weights, 0])));
await says(() => other.setWeights(damaged(0, 1)));
await says(() => other.setWeights(damaged(9, 1)));
await says(() => other.setWeights(damaged(30, 1)));
await says(() => other.setWeights(damaged(weights.length - 1, 1)));
await says(() => other.run(...right));
other.setWeights(weights.buffer);
console.log(shown(other.run(...right)[1]));
await says(() => load(bytes, damaged(64, 1)));
await says(() => load(weights));
await says(() => load(bytes.subarray(0, bytes.length - 9)));
await says(async () => load(await readFile("../other/other.wasm")));
await says(() => load(Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0)));
await says(() => load("absent.wasm"));
console.log((await load("model.wasm")).run.parameters.join(" "), (await load()).about.name);
