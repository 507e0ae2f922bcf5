// Marks the current link in the list of programs to connect: the program that the URL's hash names, else the first.
function mark() {
  for (const link of document.querySelectorAll(".programs a")) {
    const shown = document.querySelector(link.hash)?.checkVisibility();
    if (shown) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}
addEventListener("hashchange", mark);
mark();
