// The command palette: Ctrl K or Command K opens it on any page. Choosing a page opens that page. Choosing an action of
// this page follows a link; a button only gets the focus and waits for Enter, so that the palette decides nothing.
const dialog = document.getElementById("palette");
const input = document.getElementById("palette-input");
const list = document.getElementById("palette-list");
const none = dialog?.querySelector("[data-none]");
const ACTIONS = ".main .actions .button, .main .form-actions .button, .main [data-key], .main .comment summary";
const found = new Map(); // the element of each action, by its option
let current = null;

const shown = () => [...list.children].filter((option) => !option.hidden);

function choose(option) {
  current?.removeAttribute("aria-selected");
  current = option ?? null;
  current?.setAttribute("aria-selected", "true");
  current?.scrollIntoView({ block: "nearest" });
  if (current) input.setAttribute("aria-activedescendant", current.id);
  else input.removeAttribute("aria-activedescendant");
}

function narrow() {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const option of list.children) {
    const text = option.textContent.toLowerCase();
    option.hidden = !words.every((word) => text.includes(word));
  }
  choose(shown()[0]);
  none.textContent = current ? "" : "Nothing matches.";
}

function gather() {
  for (const option of found.keys()) option.remove();
  found.clear();
  const seen = new Set();
  for (const element of document.querySelectorAll(ACTIONS)) {
    const words = element.textContent.replace(/\s+/g, " ").trim();
    if (!words || seen.has(words) || element.disabled || !element.checkVisibility()) continue;
    seen.add(words);
    const option = document.createElement("li");
    option.setAttribute("role", "option");
    option.id = `palette-action-${seen.size}`;
    option.append(document.createElement("span"));
    option.firstChild.textContent = words;
    found.set(option, element);
  }
  list.prepend(...found.keys());
}

function open() {
  if (dialog.open || document.querySelector("dialog[open]")) return;
  gather();
  input.value = "";
  narrow();
  dialog.showModal();
  input.focus();
}

function run(option) {
  if (!option) return;
  dialog.close();
  const element = found.get(option);
  if (!element) location.assign(option.dataset.href);
  else if (element.matches("a")) element.click();
  else element.focus();
}

const MOVES = {
  ArrowDown: (all, at) => all[(at + 1) % all.length],
  ArrowUp: (all, at) => all[(at - 1 + all.length) % all.length],
};

if (dialog) {
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
    event.preventDefault();
    open();
  });
  input.addEventListener("input", narrow);
  input.addEventListener("keydown", (event) => {
    const all = shown();
    if (event.key === "Enter") {
      event.preventDefault();
      run(current);
    } else if (MOVES[event.key] && all.length) {
      event.preventDefault();
      choose(MOVES[event.key](all, all.indexOf(current)));
    }
  });
  list.addEventListener("click", (event) => run(event.target.closest("[role=option]")));
  for (const button of document.querySelectorAll("[data-palette-open]")) {
    button.removeAttribute("hidden");
    button.addEventListener("click", open);
  }
}
