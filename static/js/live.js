// Live updates. A hint from the WebSocket becomes an event on <body>: "tasks" -> `hint-tasks`, "task:abc" ->
// `hint-task-abc`. An element refetches its own partial with hx-trigger="hint-tasks from:body", or, at most once in
// three seconds, with "hint-tasks@3s from:body". While the WebSocket is lost there is a banner, and the page polls.
const POLL_MS = 5000;
const banner = document.getElementById("offline");
const address = document.body.dataset.live; // of the WebSocket; missing if nobody is signed in
let waiting = new Set();
let flushing = false;
const BEAT_MS = 500;
let beat = BEAT_MS; // the server sends a longer one when many pages are open
let socket = null;
let delay = 1000;
let lostAt = 0;
let polling = 0;

const eventName = (hint) => `hint-${hint.replace(":", "-")}`;

const sentAt = new Map(); // the time at which each hint was last sent
const pauses = new Map(); // for each event that must wait: whether to send it after its pause

function send(names) {
  document.body.dispatchEvent(new CustomEvent("hint", { detail: { hints: [...names] } }));
  for (const name of names) {
    sentAt.set(name, performance.now());
    document.body.dispatchEvent(new CustomEvent(name));
    const paces = new Set();
    for (const element of document.querySelectorAll(`[hx-trigger*='${name}@']`)) {
      for (const [event, pace] of hinted(element)) if (event === name && pace) paces.add(pace);
    }
    for (const pace of paces)
      sendPaced(`${name}@${pace}`, Number.parseInt(pace, 10) * (pace.endsWith("ms") ? 1 : 1000));
  }
}

// Sends the event at most once in `ms`. htmx's `throttle` would drop the last event of a series.
function sendPaced(event, ms) {
  if (pauses.has(event)) {
    pauses.set(event, true);
    return;
  }
  pauses.set(event, false);
  document.body.dispatchEvent(new CustomEvent(event));
  setTimeout(() => {
    const again = pauses.get(event);
    pauses.delete(event);
    if (again) sendPaced(event, ms);
  }, ms);
}

// The hints on which an element is fetched again: [name, pace] of each.
function hinted(element) {
  const found = element.getAttribute?.("hx-trigger")?.matchAll(/(hint-[\w-]+)(?:@(\d+m?s))?/g) ?? [];
  return [...found].map(([, name, pace]) => [name, pace]);
}

// A change during the fetch of an element may be missing from the response, and htmx drops a hint that arrives
// meanwhile. So the hint is sent again after the fetch.
const begunAt = new WeakMap();
document.body.addEventListener("htmx:beforeRequest", ({ detail }) => begunAt.set(detail.xhr, performance.now()));
document.body.addEventListener("htmx:afterRequest", ({ detail }) => {
  const begun = begunAt.get(detail.xhr);
  const missed = hinted(detail.elt).filter(([name]) => sentAt.get(name) > begun);
  if (missed.length) hint(missed.map(([name]) => name));
});

// Sends hints at most once per beat, and never loses the last one. With a long beat each page waits for a random part
// of it, so that pages that were told at once do not fetch at once.
function hint(names) {
  for (const name of names) waiting.add(name);
  if (flushing) return;
  flushing = true;
  if (beat > BEAT_MS) setTimeout(() => send(take()), Math.random() * beat);
  else send(take());
  setTimeout(() => {
    flushing = false;
    if (waiting.size) hint([]);
  }, beat);
}

function take() {
  const names = waiting;
  waiting = new Set();
  return names;
}

// Sends every hint that this page listens for: used after a gap, in which any hint may have been lost.
function resync() {
  const names = new Set();
  for (const element of document.querySelectorAll("[hx-trigger*='hint-']")) {
    for (const [name] of hinted(element)) names.add(name);
  }
  hint(names);
}

function startPolling() {
  if (polling) return;
  polling = setInterval(() => {
    if (!document.hidden) resync();
  }, POLL_MS);
}

function stopPolling() {
  clearInterval(polling);
  polling = 0;
  lostAt = 0;
  banner?.setAttribute("hidden", "");
}

function lost(event) {
  socket = null;
  if (event.code === 4401) resync(); // signed out elsewhere: the next fetch leads to the sign-in page
  lostAt ||= Date.now();
  startPolling();
  // A short interruption needs no banner.
  setTimeout(() => {
    if (lostAt) banner?.removeAttribute("hidden");
  }, 2500);
  setTimeout(connect, delay + (Math.random() * delay) / 2);
  delay = Math.min(delay * 2, 30000);
}

function connect() {
  if (socket) return;
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  socket = new WebSocket(`${scheme}//${location.host}${address}`);
  socket.addEventListener("open", () => {
    delay = 1000;
    stopPolling();
  });
  socket.addEventListener("close", lost);
  socket.addEventListener("message", (event) => {
    let message;
    try {
      message = JSON.parse(event.data);
    } catch {
      return;
    }
    beat = message.beat ?? BEAT_MS;
    if (message.resync) resync();
    if (Array.isArray(message.hints)) hint(message.hints.map(eventName));
  });
}

document.body.addEventListener("resync", resync);
if (address) {
  connect();
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && polling) resync();
  });
}

// Updates relative times without a request.
const UNITS = [
  ["d", 86400],
  ["h", 3600],
  ["min", 60],
  ["s", 1],
];
function age() {
  const now = Date.now();
  for (const element of document.querySelectorAll("time[data-ago]")) {
    const seconds = Math.round((now - Date.parse(element.dateTime)) / 1000);
    const past = seconds >= 0;
    const [unit, size] = UNITS.find(([, s]) => Math.abs(seconds) >= s) ?? ["s", 1];
    const amount = `${Math.floor(Math.abs(seconds) / size)} ${unit}`;
    const text = Math.abs(seconds) < 5 ? "just now" : past ? `${amount} ago` : `in ${amount}`;
    if (element.textContent !== text) element.textContent = text;
  }
}
// The title of a time has the exact moment in UTC, and here it gets the local time of whoever looks.
const LOCAL = new Intl.DateTimeFormat(document.documentElement.lang || undefined, {
  dateStyle: "medium",
  timeStyle: "medium",
});
const ZONE = new Intl.DateTimeFormat().resolvedOptions().timeZone;
function local() {
  for (const element of document.querySelectorAll("time[title]:not([data-local])")) {
    element.dataset.local = "";
    const moment = Date.parse(element.dateTime);
    if (moment && ZONE !== "UTC") element.title = `${LOCAL.format(moment)} (${ZONE}), ${element.title}`;
  }
}
// Updates running clocks every second, or every ten seconds for people who prefer reduced motion.
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const SPANS = [
  ["d", 86400, "h", 3600],
  ["h", 3600, "min", 60],
  ["min", 60, "s", 1],
];
function span(seconds) {
  const found = SPANS.find(([, size]) => seconds >= size);
  if (!found) return `${seconds} s`;
  const [unit, size, small, below] = found;
  const rest = Math.floor((seconds % size) / below);
  return `${Math.floor(seconds / size)} ${unit}${rest ? ` ${rest} ${small}` : ""}`;
}
function run() {
  const now = Date.now();
  for (const element of document.querySelectorAll("time[data-since]")) {
    const text = span(Math.max(0, Math.floor((now - Date.parse(element.dateTime)) / 1000)));
    if (element.textContent !== text) element.textContent = text;
  }
}
let seconds = 0;
setInterval(() => {
  if (document.hidden) return;
  age();
  local();
  seconds += 1;
  if (!calm.matches || seconds % 10 === 0) run();
}, 1000);
