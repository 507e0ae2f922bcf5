// The list of programs to connect: marks the one that is shown, which the address names, or else the first.
function mark() {
  for (const link of document.querySelectorAll(".programs a")) {
    const shown = document.querySelector(link.hash)?.checkVisibility();
    if (shown) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}
addEventListener("hashchange", mark);
mark();
