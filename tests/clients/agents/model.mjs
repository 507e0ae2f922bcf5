// The stand-in for a model and its steps, as in model.py.
import { inspect } from "node:util";
import { expectTrue, run, sleep } from "./expect.mjs";

const ANSWERS = { color: "red", confirm: true };
const MOST_CALLS = 60;
const THINKS_MS = 5_000;
const LOST = /time[ds]?[ _-]?out|timeout|terminated|closed|abort/i;

/** The call that a text names for the result: in its words, or in its JSON where that is all that is shown. */
function nextOf(text) {
  const said = /For the result call (\w+) with (\{.*?\})\./s.exec(text);
  if (said) return [said[1], JSON.parse(said[2])];
  const same = /For the result call (\w+) again with exactly the same arguments/.exec(text);
  if (same) return [same[1], undefined];
  let about;
  try {
    about = JSON.parse(text);
  } catch {
    return undefined;
  }
  const after = (about?.taskhub ?? about)?.next;
  if (!after) return undefined;
  return [after.call, typeof after.arguments === "object" ? after.arguments : undefined];
}

/** What the text asks the model: the tool to answer with, its arguments but for the answer, and the form's schema. */
function askedIn(text) {
  const asks = /It asks you \(elicitation, key \w+\): (\{.*\})\nTo answer, call (\w+) with (\{.*?\}) and as answer /;
  const found = asks.exec(text);
  return found ? [found[2], JSON.parse(found[3]), JSON.parse(found[1]).requestedSchema] : undefined;
}

class Model {
  givenUp = 0;
  interim = 0;
  answers = 0;
  longest = 0;

  constructor(call) {
    this.call = call;
  }

  async once(tool, args) {
    const began = Date.now();
    let text;
    try {
      text = await this.call(tool, args);
    } catch (error) {
      text = `${error.name}: ${error.message}`;
    }
    const seconds = (Date.now() - began) / 1000;
    console.log(`${seconds.toFixed(1).padStart(5)} s  ${tool}: ${inspect(text.slice(0, 120))}`);
    const lost = nextOf(text) === undefined && text.length < 1000 && LOST.test(text);
    if (lost) this.givenUp += 1;
    else this.longest = Math.max(this.longest, seconds);
    return [text, lost];
  }

  /** Call a tool and do what is said until there is its result, or something that `until` takes. */
  async result(tool, args, until = () => false) {
    let calling = [tool, args];
    for (let n = 0; n < MOST_CALLS; n++) {
      const [text, lost] = await this.once(...calling);
      if (lost) {
        await sleep(THINKS_MS);
        continue;
      }
      const after = nextOf(text);
      if (until(text) || after === undefined) return text;
      this.interim += 1;
      const asked = askedIn(text);
      if (asked) {
        const [answering, given, form] = asked;
        const content = Object.fromEntries(Object.keys(form.properties).map((name) => [name, ANSWERS[name]]));
        await this.once(answering, { ...given, answer: { action: "accept", content } });
        this.answers += 1;
      }
      calling = [after[0], after[1] ?? args];
    }
    throw new Error(`${tool} has no result after ${MOST_CALLS} calls`);
  }
}

/** All that is tried with one framework; see `steps` in model.py. */
export async function steps(name, names, call, { seconds, elicits = false }) {
  for (const tool of ["echo", "countdown", "deploy", "taskhub_wait_for_task", "taskhub_cancel_task"]) {
    expectTrue(`${tool} is listed`, names.includes(tool));
  }
  const model = new Model(call);
  expectTrue("echo", (await model.result("echo", { text: "hé" })).includes("hé"));
  const counted = await model.result("word_count", { text: "a b a" });
  expectTrue(`word_count: ${counted}`, /"words":\s*3\b/.test(counted));

  const began = Date.now();
  const ended = await model.result("countdown", { seconds, steps: 20 });
  expectTrue(`countdown: ${ended}`, /"steps":\s*20\b/.test(ended));
  const took = Math.round((Date.now() - began) / 1000);
  expectTrue("there was an interim result, or the program waited to the end", model.interim || !model.givenUp);
  const counting = `${seconds} s took ${took} s: given up ${model.givenUp}, interim ${model.interim}`;

  const givenUp = model.givenUp; // from here on its patience should be known
  const done = await model.result("deploy", { service: `agents-${name}`, version: "1", environment: "production" });
  expectTrue(`deploy: ${done}`, /"deployed":\s*true/.test(done));

  const stopped = await model.result("countdown", { seconds: 300, steps: 300 }, (text) => nextOf(text) !== undefined);
  const { task_id } = nextOf(stopped)[1];
  const [cancelled] = await model.once("taskhub_cancel_task", { task_id });
  expectTrue(`cancel: ${cancelled}`, cancelled.toLowerCase().includes("cancel"));
  const over = await model.result("taskhub_wait_for_task", { task_id });
  expectTrue(`what came of it: ${over}`, over.toLowerCase().includes("cancelled"));

  expectTrue("pick", (await model.result("pick", {})).includes("red"));
  expectTrue("a model is not asked what a person can be", model.answers === 0);
  expectTrue("paint", (await model.result("paint", {})).includes("red"));
  expectTrue(`the model answered ${model.answers} questions`, model.answers === (elicits ? 0 : 1));
  const later = `later ${model.givenUp - givenUp}`;
  const others = "a person, and for the client alone by its model";
  const answered = `questions answered by ${elicits ? "its program" : others}`;
  console.log(`${counting}, ${later}; longest answered call ${model.longest.toFixed(1)} s; ${answered}`);
}

/** `SCRIPT URL TOKEN SECONDS`. */
export async function script(name, stepsOf) {
  await run(name, (url, token, seconds) => stepsOf(url, token, Number(seconds)));
}

/** What a model is shown of content blocks. */
export function shown(content) {
  if (typeof content === "string") return content;
  return [content].flat().map((block) => (block.type === "text" ? block.text : JSON.stringify(block))).join("\n");
}
