// The bell: opens the news in place, and says what is new. Without it the bell is a link to their page.
const panel = document.getElementById("news-panel");
const bells = [...document.querySelectorAll("[data-bell]")];
const isOpen = () => panel.matches(":popover-open");
let wasOpen = false;

function onPage() {
  const list = document.getElementById("news-list");
  return list && !panel.contains(list);
}

async function open(bell) {
  await htmx.ajax("GET", bell.href, { target: panel });
  if (!panel.querySelector("#news-list")) return; // failed.js says why
  panel.showPopover();
  (panel.querySelector("a, button") ?? panel).focus();
}

if (panel && !onPage()) {
  panel.tabIndex = -1;
  for (const bell of bells) {
    bell.setAttribute("role", "button");
    bell.setAttribute("aria-haspopup", "dialog");
    bell.setAttribute("aria-expanded", "false");
    // A press outside of the open panel closes it before the click.
    bell.addEventListener("pointerdown", () => {
      wasOpen = isOpen();
    });
    bell.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
      event.preventDefault();
      if (isOpen()) panel.hidePopover();
      else if (!wasOpen || event.detail === 0) open(bell);
      wasOpen = false;
    });
    bell.addEventListener("keydown", (event) => {
      if (event.key !== " ") return;
      event.preventDefault();
      bell.click();
    });
  }
  panel.addEventListener("toggle", (event) => {
    const opened = event.newState === "open";
    for (const bell of bells) bell.setAttribute("aria-expanded", String(opened));
    if (!opened) panel.replaceChildren(); // so that it does not follow what happens while nobody sees it
  });
}

// Says the newest when there are newer ones than before.
let newest;
document.addEventListener("htmx:afterSettle", () => {
  const told = document.querySelector("#news-now [data-newest]");
  if (!told) return;
  const now = Number(told.dataset.newest);
  if (newest !== undefined && now > newest) document.getElementById("said").textContent = told.dataset.said;
  newest = Math.max(newest ?? 0, now);
});
