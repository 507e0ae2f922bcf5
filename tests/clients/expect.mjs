// What the JavaScript scripts here share: one clear line where a client got something else than a user would expect.
import { isDeepStrictEqual, inspect } from "node:util";

const SECONDS = 180;

export class Difference extends Error {}

export function expect(what, found, wanted) {
  if (!isDeepStrictEqual(found, wanted)) {
    throw new Difference(`${what}: ${inspect(found, { depth: 5 })}, expected ${inspect(wanted, { depth: 5 })}`);
  }
}

export function expectTrue(what, found) {
  if (!found) throw new Difference(what);
}

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** The call must fail, with this JSON-RPC code if one is given; returns the error. */
export async function refused(what, call, code) {
  let found;
  try {
    found = await call();
  } catch (error) {
    if (code !== undefined) expect(`${what}: code of "${error.message}"`, error.code, code);
    return error;
  }
  throw new Difference(`${what} was not refused but answered ${inspect(found)}`);
}

export async function until(what, condition) {
  const end = Date.now() + 15_000;
  while (!(await condition())) {
    if (Date.now() > end) throw new Difference(`${what}: not within 15 s`);
    await sleep(100);
  }
}

/** `SCRIPT URL TOKEN [TOKEN]`: exit 0 when all is as expected, else 1. */
export async function run(name, script) {
  const late = setTimeout(() => {
    console.log(`${name}: not done within ${SECONDS} s`);
    process.exit(1);
  }, SECONDS * 1000);
  try {
    await script(...process.argv.slice(2));
  } catch (error) {
    console.error(error);
    console.log(`${name}: ${error.message}`);
    process.exit(1);
  }
  clearTimeout(late);
  console.log(`${name}: all as expected`);
  process.exit(0); // whatever a client still keeps open
}
