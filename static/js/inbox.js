// After an answer the focus moves on: to the first wrong field, or to the next decision.
document.addEventListener("htmx:afterSettle", (event) => {
  const inbox = event.detail.elt;
  if (inbox?.id !== "inbox") return;
  const wrong = inbox.querySelector("[aria-invalid=true]");
  if (wrong) {
    wrong.focus();
    return;
  }
  scrollTo({ top: 0 });
  const title = inbox.querySelector("#decision-title");
  if (title) title.focus({ preventScroll: true });
  const live = document.getElementById("said");
  if (live) live.textContent = document.getElementById("notices")?.textContent.trim() ?? "";
});

// What is pressed twice for one question decides nothing about the next, whose buttons stand where its own stood.
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
