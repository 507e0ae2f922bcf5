// After an answer, moves the focus to the first field with an error, to what else was refused, or to the next question,
// and scrolls it to the middle of the page: browsers would leave it under the sticky buttons, and take it for visible.
document.addEventListener("htmx:afterSettle", (event) => {
  const inbox = event.detail.elt;
  if (inbox?.id !== "inbox") return;
  const wrong = inbox.querySelector("[aria-invalid=true]") ?? inbox.querySelector("#decision .notice[role=alert]");
  if (wrong) {
    if (wrong.matches(".notice")) wrong.tabIndex = -1;
    wrong.focus({ preventScroll: true });
    if (wrong.name === "confirmed") wrong.select(); // typed once more, not added to
    wrong.scrollIntoView({ block: "center" });
    return;
  }
  scrollTo({ top: 0 });
  const title = inbox.querySelector("#decision-title");
  if (title) title.focus({ preventScroll: true });
  const live = document.getElementById("said");
  if (live) live.textContent = document.getElementById("notices")?.textContent.trim() ?? "";
});

// On a page that was loaded again because of an error, the field with the error may be far below: give it the focus.
document.querySelector("#decision [aria-invalid=true]")?.focus();

// Ignores buttons for a moment after the question changed. Otherwise a double click would also decide the next
// question, whose buttons are in the same place.
const REST_MS = 500;
const question = () => document.getElementById("decision")?.action;
let shown = question();
let changedAt = -REST_MS;
document.addEventListener("htmx:afterSwap", () => {
  if (question() === shown) return;
  shown = question();
  changedAt = performance.now();
});
function rest(event) {
  if (performance.now() - changedAt >= REST_MS) return;
  event.preventDefault();
  event.stopImmediatePropagation();
}
document.addEventListener(
  "keydown",
  (event) => {
    if (event.key === "a" || event.key === "r") rest(event);
  },
  true,
);
document.addEventListener(
  "submit",
  (event) => {
    if (event.target.id === "decision") rest(event);
  },
  true,
);

// For calls that are decided together: counts those selected, and selects or clears all at once.
const boxes = () => [...document.querySelectorAll(".alike input[type=checkbox]")];
function count() {
  const said = document.querySelector("[data-selected]");
  if (!said) return;
  const selected = boxes().filter((box) => box.checked).length;
  said.hidden = false;
  said.textContent = `${selected} of ${boxes().length} selected`;
}
document.addEventListener("change", (event) => {
  if (event.target.matches(".alike input[type=checkbox]")) count();
});
document.addEventListener("restored", count);
document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-select-all]")) return;
  event.preventDefault();
  const all = boxes();
  const check = all.some((box) => !box.checked);
  for (const box of all) box.checked = check;
  count();
});
count();
