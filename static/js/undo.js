// Counts down how long a decision can still be undone, and takes the button away when that is over.
const ends = new WeakMap();
function countDown() {
  for (const form of document.querySelectorAll("[data-undo]:not([hidden])")) {
    if (!ends.has(form)) ends.set(form, performance.now() + Number(form.dataset.undo) * 1000);
    const left = Math.ceil((ends.get(form) - performance.now()) / 1000);
    const said = form.querySelector("[data-left]");
    if (left > 0) said.textContent = `${left} s`;
    else {
      if (form.contains(document.activeElement)) document.getElementById("content")?.focus({ preventScroll: true });
      form.hidden = true;
    }
  }
}
countDown();
setInterval(countDown, 250);
