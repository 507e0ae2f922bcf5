// Keyboard shortcuts, which can be switched off. Single keys do nothing while somebody types.
const STORE = "taskhub.keys";
const GO = JSON.parse(document.body.dataset.go ?? "{}");
const help = document.getElementById("keys-help");
let pendingG = 0;

const on = () => {
  try {
    return localStorage.getItem(STORE) !== "off";
  } catch {
    return true;
  }
};
const typing = (target) =>
  target.closest("input:not([type=checkbox]):not([type=radio]), select, textarea, [contenteditable]");

const rows = () => [...document.querySelectorAll("[data-rows] a.row-link")].filter((a) => a.offsetParent !== null);
function move(step) {
  const links = rows();
  if (!links.length) return;
  const focused = links.indexOf(document.activeElement);
  // From an open question on, not from the top of a long list.
  const at = focused < 0 ? links.findIndex((link) => link.closest("[aria-current=true]")) : focused;
  const next = at < 0 ? (step > 0 ? 0 : links.length - 1) : Math.min(Math.max(at + step, 0), links.length - 1);
  links[next].focus();
}

const focus = (selector) => document.querySelector(selector)?.focus();
// Focuses the button that rejects; before that the list of reasons, if none is chosen or typed, because one is needed.
function reject() {
  const form = document.getElementById("decision");
  const reasons = form?.querySelector("select[name=preset]");
  const reason = form?.querySelector("[name=reason]");
  if (reasons && !reasons.value && !reason?.value.trim()) reasons.focus();
  else focus("[data-key=r]");
}
// An approval may need something typed: the name of the tool, the code of a second factor. What is still empty, or was
// refused, first.
function approve() {
  const typed = [...document.querySelectorAll("#decision :is(input[name=confirmed], input[name=code])")];
  const wanted = typed.find((input) => !input.value.trim() || input.matches("[aria-invalid=true]"));
  if (!wanted) return focus("[data-key=a]");
  wanted.focus();
  wanted.select();
}
// Focuses the button that edits the arguments; if there is none, the first field of a form that a tool has asked for.
function edit() {
  const shown = "#decision :is(input, select, textarea):not([type=hidden])";
  focus(document.querySelector("[data-key=e]") ? "[data-key=e]" : shown);
}
// Opens the page of all calls that are alike; on that page, selects them all.
function all() {
  const row = document.activeElement?.closest("a[data-alike]");
  (document.querySelector("[data-select-all]") ?? row ?? document.querySelector("[data-key=X]"))?.click();
}

const KEYS = {
  "?": () => help?.showModal(),
  "/": () => document.querySelector("[data-search]")?.focus(),
  j: () => move(1),
  k: () => move(-1),
  a: approve,
  r: reject,
  e: edit,
  s: () => document.querySelector("[data-key=s]")?.click(),
  u: () => document.querySelector("[data-undo]:not([hidden]) [data-key=u]")?.click(),
  x: () => document.activeElement?.closest("tr")?.querySelector("input[type=checkbox]")?.click(),
  X: all,
};

// Enter in the list of reasons rejects with the chosen reason; if none is chosen, it focuses the box to type a reason.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !on() || !event.target.matches("#decision select[name=preset]")) return;
  event.preventDefault();
  const form = event.target.form;
  if (event.target.value) form.querySelector("[data-key=r]").click();
  else form.querySelector("[name=reason]").focus();
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (event.key === "Escape" && typing(event.target) && event.target.matches("[data-search]")) event.target.blur();
  if (typing(event.target) || document.querySelector("dialog[open]")) return;
  if (!on() && event.key !== "?") return;
  if (pendingG && GO[event.key]) {
    clearTimeout(pendingG);
    pendingG = 0;
    event.preventDefault();
    location.assign(GO[event.key]);
    return;
  }
  if (event.key === "g") {
    clearTimeout(pendingG);
    pendingG = setTimeout(() => {
      pendingG = 0;
    }, 1200);
    return;
  }
  const action = KEYS[event.key];
  if (action) {
    event.preventDefault();
    action();
  }
});

for (const button of document.querySelectorAll("[data-keys-open]")) {
  button.removeAttribute("hidden");
  button.addEventListener("click", () => help?.showModal());
}
const toggle = document.querySelector("[data-keys-toggle]");
if (toggle) {
  toggle.checked = on();
  toggle.addEventListener("change", () => {
    try {
      localStorage.setItem(STORE, toggle.checked ? "on" : "off");
    } catch {
      /* not stored, so it applies to this page only */
    }
  });
}

// Sends a filter form when a choice changes. Its button is for browsers without scripts.
function hideSubmits() {
  for (const button of document.querySelectorAll("form[data-autosubmit] [data-nojs]")) button.hidden = true;
}
document.addEventListener("htmx:afterSwap", hideSubmits); // for filter forms that htmx has put into the page
document.addEventListener("change", (event) => {
  if (event.target.matches("form[data-autosubmit] select")) event.target.form.requestSubmit();
});
hideSubmits();
// When a form is folded out, its first field gets the focus.
document.addEventListener(
  "toggle",
  (event) => {
    if (event.target.matches("details[open]")) event.target.querySelector(":scope form :is(textarea, select)")?.focus();
  },
  true,
);
// Opens confirmations as dialogs. Without scripts, the link leads to a page with the same form.
document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-dialog]");
  const dialog = opener && document.getElementById(opener.dataset.dialog);
  if (dialog) {
    event.preventDefault();
    dialog.showModal();
  }
  const closer = event.target.closest("[data-close]");
  if (closer) closer.closest("dialog")?.close();
});

// On a narrow screen, scrolls the strip of tabs so that the current tab is visible.
const showTab = () => {
  for (const tab of document.querySelectorAll(".tabs [aria-current]")) {
    const strip = tab.closest(".tabs");
    strip.scrollLeft = tab.offsetLeft - (strip.clientWidth - tab.offsetWidth) / 2;
  }
};
showTab();
document.addEventListener("htmx:afterSettle", showTab);
