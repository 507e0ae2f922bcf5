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
