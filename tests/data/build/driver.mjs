/* Runs an entry of a library for WebAssembly: driver.mjs LIBRARY ENTRY IN OUT [WEIGHTS].

   IN has the arguments one after the other, OUT gets the results, as the arrays that the entry takes and gives; halves
   are their bits in IN, and f32 in OUT. */

import { readFile, writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [library, number, input, output, weights] = process.argv.slice(2);
const { load, LibraryError } = await import(pathToFileURL(resolve(library)));
const data = new Uint8Array(await readFile(input));
try {
  const model = await load(await readFile(library.replace(/\.mjs$/, ".wasm")), weights && (await readFile(weights)));
  const entry = model[model.about.entries[number].name];
  let at = 0;
  const given = entry.parameters.map((parameter) => {
    const bytes = data.slice(at, (at += parameter.bytes)).buffer;
    return new globalThis[/^b?f16$/.test(parameter.type) ? "Uint16Array" : parameter.array](bytes);
  });
  const found = entry(...given);
  const results = entry.results.length === 1 ? [found] : found;
  await writeFile(output, Buffer.concat(results.map((array) => Buffer.from(array.buffer))));
  console.log("done");
} catch (error) {
  if (!(error instanceof LibraryError)) throw error;
  console.log(error.message);
  process.exitCode = 1;
}
