// <button data-copy="text">: copies and says so.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  let text = button.dataset.copy;
  if (text.startsWith("#")) text = document.querySelector(text)?.textContent ?? "";
  let said = "Copied";
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    said = "Copying is not allowed here";
  }
  const live = document.getElementById("said");
  if (live) live.textContent = said;
  button.dataset.copied = "";
  setTimeout(() => delete button.dataset.copied, 1500);
});
