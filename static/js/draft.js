// Keeps what a person typed into the form of a question, and fills it in when they return to the form, for example
// after signing in again. The draft is kept in this tab (sessionStorage), under the person's name, until the form is
// sent, the person signs out, or somebody else signs in here.
const PREFIX = "draft:";
const SENT = "sent-draft";
const MOST = 20; // questions
const LONGEST = 100_000; // characters of one
const { person } = document.body.dataset;
const keyOf = (form) => `${PREFIX}${person}:${new URL(form.action, location.href).pathname}`;
const formOf = (element) => (person ? (element?.closest?.("form[data-draft]") ?? null) : null);

function kept() {
  return Object.keys(sessionStorage).filter((key) => key.startsWith(PREFIX));
}
// Runs `step`; if the browser does not allow storage, only the draft is lost.
function tried(step) {
  try {
    return step();
  } catch {
    return null;
  }
}
function forget(keep = () => false) {
  tried(() => {
    for (const key of kept()) if (!keep(key)) sessionStorage.removeItem(key);
  });
}

const fieldsOf = (form) =>
  [...form.elements].filter(
    (field) =>
      field.name &&
      field.autocomplete !== "one-time-code" &&
      field.name !== "confirmed" && // the name of a tool is typed for each approval of a critical call anew
      !["hidden", "password", "file", "submit", "button"].includes(field.type) &&
      field.matches("input, textarea, select"),
  );

// What is chosen in a select, if it differs from what was drawn: the first option, where none was drawn as selected.
function chosen(field) {
  const options = [...field.options];
  const marked = options.filter((option) => option.defaultSelected);
  const drawn = marked.length || field.multiple ? marked : options.slice(0, 1);
  if (options.every((option) => option.selected === drawn.includes(option))) return [];
  return [[field.name, null, [...field.selectedOptions].map((option) => option.value)]];
}

// The fields that differ from the form as it was drawn: [name, value, whether it is checked] of a checkbox or radio
// button, [name, null, what was typed or chosen] of any other field.
function typed(form) {
  return fieldsOf(form).flatMap((field) => {
    if (field.matches("[type=checkbox], [type=radio]"))
      return field.checked === field.defaultChecked ? [] : [[field.name, field.value, field.checked]];
    if (field.matches("select")) return chosen(field);
    return field.value === field.defaultValue ? [] : [[field.name, null, field.value]];
  });
}

function keep(form) {
  tried(() => {
    const found = JSON.stringify(typed(form));
    const key = keyOf(form);
    sessionStorage.removeItem(key);
    if (found === "[]" || found.length > LONGEST) return;
    for (const old of kept().slice(0, Math.max(0, kept().length - MOST + 1))) sessionStorage.removeItem(old);
    sessionStorage.setItem(key, found);
  });
}

function putBack() {
  const form = formOf(document.querySelector("form[data-draft]"));
  if (!form || form.dataset.draft === "seen") return;
  form.dataset.draft = "seen";
  // The server returned the form with errors and what was typed: there is no need for the draft.
  if (form.querySelector("[aria-invalid=true]")) return;
  const found = tried(() => JSON.parse(sessionStorage.getItem(keyOf(form)) ?? "[]"));
  if (!Array.isArray(found)) return;
  let any = false;
  for (const [name, value, held] of found) {
    for (const field of fieldsOf(form).filter((one) => one.name === name)) {
      if (field.matches("[type=checkbox], [type=radio]")) {
        if (field.value !== value) continue;
        any = any || field.checked !== held;
        field.checked = held;
      } else if (field.matches("select")) {
        for (const option of field.options) {
          any = any || option.selected !== held.includes(option.value);
          option.selected = held.includes(option.value);
        }
      } else {
        any = any || field.value !== held;
        field.value = held;
      }
    }
  }
  const said = form.querySelector("[data-draft-said]");
  if (said) said.hidden = !any;
  if (any) form.dispatchEvent(new Event("restored", { bubbles: true }));
}

// A form that htmx does not send, and whose outcome this page tells: the reason was given. What was selected is kept,
// for an undo.
function given() {
  tried(() => {
    const key = sessionStorage.getItem(SENT);
    sessionStorage.removeItem(SENT);
    if (!key || !document.getElementById("notices")?.textContent.trim()) return;
    const held = JSON.parse(sessionStorage.getItem(key) ?? "[]").filter(([, value]) => value !== null);
    if (held.length) sessionStorage.setItem(key, JSON.stringify(held));
    else sessionStorage.removeItem(key);
  });
}

if (person) {
  forget((key) => key.startsWith(`${PREFIX}${person}:`));
  given();
  putBack();
}
for (const kind of ["input", "change"])
  document.addEventListener(kind, (event) => {
    const form = formOf(event.target);
    if (form) keep(form);
  });
document.addEventListener("htmx:afterSettle", putBack);
document.addEventListener("htmx:beforeOnLoad", (event) => {
  const { xhr, requestConfig } = event.detail;
  const form = formOf(event.target);
  if (!form || requestConfig.verb === "get" || xhr.status >= 300 || xhr.getResponseHeader("HX-Redirect")) return;
  tried(() => sessionStorage.removeItem(keyOf(form)));
});
document.addEventListener("submit", (event) => {
  if (event.target.matches("form[data-sign-out]")) forget();
  const form = formOf(event.target);
  if (form && !form.hasAttribute("hx-post")) tried(() => sessionStorage.setItem(SENT, keyOf(form)));
});
