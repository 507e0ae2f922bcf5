// <button data-copy="text"> or data-copy="#element": copies the text, and says so on the button and to screen readers.
const SHOWN_MS = 1500;

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const named = button.dataset.copy;
  const place = named.startsWith("#") ? document.querySelector(named) : null;
  const text = place ? place.textContent : named;
  let said = "Copied";
  if (!(await written(text)) && !selected(text, button)) {
    said = "Not copied: select the text instead";
  }
  const live = document.getElementById("said");
  if (live) live.textContent = said;
  button.dataset.copied = said;
  clearTimeout(button.copied);
  button.copied = setTimeout(() => {
    delete button.dataset.copied;
    if (live) live.textContent = ""; // the same words again would not be heard
  }, SHOWN_MS);
});

async function written(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // refused, or a page without https, which has no clipboard
  }
}

// The fallback where there is no clipboard API: selects the text in a field, from which it can be copied on any page.
function selected(text, button) {
  const field = document.createElement("textarea");
  field.value = text;
  field.setAttribute("readonly", "");
  field.className = "visually-hidden";
  document.body.append(field);
  field.select();
  let done = false;
  try {
    done = document.execCommand("copy");
  } catch {
    /* this page may not copy either way */
  }
  field.remove();
  button.focus();
  return done;
}
