// Reports a failed htmx request beside the button that was pressed, and says what to do next. What was typed is kept.
// Failed requests that the page made by itself are reported once, at the top.
const SIGN_IN = document.body.dataset.signIn;
const seconds = () => htmx.config.timeout / 1000;
const offline = new WeakSet(); // requests that were sent while there was no network
const behind = new Map(); // parts of the page that could not be updated: the reason
const banner = document.getElementById("stale");

const byPerson = (request) => request.requestConfig.triggeringEvent?.isTrusted === true;
const leadsToSignIn = (address) => Boolean(address) && new URL(address, location.href).pathname === SIGN_IN;

// The server's message, which is plain text for htmx. Anything else, such as the error page of a proxy, is not shown.
function wordsOf(xhr) {
  const plain = xhr.getResponseHeader("Content-Type")?.startsWith("text/plain");
  return plain ? xhr.responseText.trim().slice(0, 500) : "";
}

// The element for the message, its form, and the button that was pressed.
function placeOf(element, event) {
  const pressed = event?.submitter ?? element;
  const form = pressed.closest("form");
  const actions = pressed.closest(".form-actions") ?? form?.querySelector(".form-actions");
  const cell = pressed.closest("th, td");
  const strip = pressed.closest("nav, header");
  let box = (actions ?? cell ?? form ?? strip?.parentElement ?? pressed.parentElement).querySelector(
    ":scope > .failed",
  );
  if (!box) {
    box = document.createElement("div");
    box.className = "failed";
    box.setAttribute("role", "alert");
    if (actions) actions.prepend(box);
    else if (cell ?? form) (cell ?? form).append(box);
    else (strip ?? pressed).after(box);
  }
  return { box, form, pressed };
}

function say({ box, pressed, form }, kind, what, then, offer = "") {
  const notice = document.getElementById("failed-notice").content.firstElementChild.cloneNode(true);
  notice.classList.add(kind);
  notice.querySelector("[data-what]").textContent = what;
  notice.querySelector("[data-then]").textContent = then.trim();
  for (const button of notice.querySelectorAll("[data-offer]")) button.hidden = button.dataset.offer !== offer;
  notice.querySelector("[data-offer=look]").addEventListener("click", () => look({ box, pressed, form }));
  const signIn = notice.querySelector("[data-offer=sign-in]");
  signIn.href = `${SIGN_IN}?next=${encodeURIComponent(location.pathname + location.search)}`;
  signIn.target = "_blank"; // what was typed stays in this tab
  if (form?.dataset.leave) notice.querySelector("[data-offer=leave]").href = form.dataset.leave;
  box.replaceChildren(notice);
  box.dataset.said = offer;
  // The button was disabled during the request and so lost the focus: focus it again.
  setTimeout(() => {
    if (document.activeElement === document.body && pressed.isConnected) pressed.focus({ preventScroll: true });
  });
  box.scrollIntoView({ block: "nearest" });
}

const kept = () => (begun() ? "What you typed is still here." : "");
const UNKNOWN = "We can't tell whether this was saved. Check before you try again.";

function signedOut(place) {
  say(
    place,
    "warning",
    "You are signed out, so nothing was saved.",
    `${kept()} Sign in in a new tab, come back and try again.`,
    "sign-in",
  );
}

async function failed(event, how) {
  const request = event.detail;
  const { xhr } = request;
  const status = how === "answer" ? xhr.status : 0;
  if (!byPerson(request)) {
    behind.set(
      event.target,
      status
        ? `the server answered ${status}`
        : how === "time"
          ? "the server does not answer"
          : "there is no connection",
    );
    tell();
    return;
  }
  const place = placeOf(event.target, request.requestConfig.triggeringEvent);
  const changing = request.requestConfig.verb !== "get";
  const words = how === "answer" ? wordsOf(xhr) : "";
  let what = words || `The server answered ${status}.`;
  if (offline.has(xhr) && how === "network") what = "You are offline: nothing was sent.";
  else if (how === "network") what = "The connection was lost.";
  else if (how === "time") what = `There was no answer within ${seconds()} seconds.`;
  else if (status >= 500 && !words) what = `TaskHub had an internal error (${status}). It was logged.`;
  if (!changing) {
    say(place, "error", what, "This page is unchanged. Try again in a moment.");
  } else if (offline.has(xhr) && how === "network") {
    say(place, "error", what, `${kept()} Try again when the network is back.`);
  } else if (status >= 400 && status < 500 && xhr.getResponseHeader("Sign-In-Changed")) {
    await signedInAnew(place);
  } else if (status === 403) {
    say(place, "error", what, "Nothing was saved. Ask an administrator, or leave it to somebody who may.");
  } else if (status >= 400 && status < 500) {
    say(place, "error", what, `Nothing was saved. ${kept()}`, "look");
  } else {
    say(place, "error", what, `${UNKNOWN} ${kept()}`, "look");
  }
}

// Fetches only the part of the page that shows whether the form was saved.
async function look(place) {
  const told = document.querySelector(place.form?.dataset.look);
  if (!told) {
    location.reload();
    return;
  }
  let response;
  try {
    response = await fetch(told.getAttribute("hx-get"), {
      headers: { "HX-Request": "true" },
      signal: AbortSignal.timeout(htmx.config.timeout),
    });
  } catch (error) {
    const why =
      error.name === "TimeoutError" ? `there was no answer within ${seconds()} seconds` : "there is no connection";
    say(place, "error", `The check failed: ${why}.`, `${UNKNOWN} ${kept()}`, "look");
    return;
  }
  if (leadsToSignIn(response.headers.get("HX-Redirect"))) {
    signedOut(place);
    return;
  }
  if (!response.ok) {
    say(place, "error", `The check failed: the server answered ${response.status}.`, `${UNKNOWN} ${kept()}`, "look");
    return;
  }
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html").body.firstElementChild;
  told.replaceWith(fresh);
  htmx.process(fresh);
  const { settled } = fresh.dataset;
  if (settled) {
    say(place, "success", `${settled}.`, "Nothing is left to do here.", "leave");
    for (const button of place.form.querySelectorAll("button:not([data-offer])")) button.disabled = true;
  } else say(place, "info", "Nothing has been saved so far.", `Try again: it cannot be saved twice. ${kept()}`);
}

// Fetches new CSRF tokens for the page's forms, whose tokens belong to the sign-in under which they were drawn.
async function renew() {
  const response = await fetch(location.href, { signal: AbortSignal.timeout(htmx.config.timeout) });
  if (leadsToSignIn(response.url)) return "out";
  const { body } = new DOMParser().parseFromString(await response.text(), "text/html");
  const headers = body.getAttribute("hx-headers");
  if (!response.ok || !headers || !body.dataset.person) return "unknown";
  if (body.dataset.person !== document.body.dataset.person) return "another";
  document.body.setAttribute("hx-headers", headers);
  for (const field of document.querySelectorAll("input[name=csrfmiddlewaretoken]"))
    field.value = JSON.parse(headers)["X-CSRFToken"];
  return "same";
}

async function signedInAnew(place) {
  let now;
  try {
    now = await renew();
  } catch {
    now = "unknown";
  }
  if (now === "same")
    say(
      place,
      "info",
      "You have signed in again since this page was opened, so nothing was saved.",
      `${kept()} Try again.`,
    );
  else if (now === "out") signedOut(place);
  else if (now === "another")
    say(
      place,
      "warning",
      "Somebody else has signed in here since this page was opened, so nothing was saved.",
      "Reload the page to continue as that person.",
    );
  else
    say(place, "error", "This page is older than your sign-in, so nothing was saved.", "Reload it and send it again.");
}

// After signing in in another tab a person can press the button again at once.
addEventListener("focus", async () => {
  const box = document.querySelector(".failed[data-said=sign-in]");
  if (!box) return;
  const form = box.closest("form");
  const place = { box, form, pressed: form?.querySelector("button:not([data-offer])") ?? box };
  try {
    if ((await renew()) === "same") say(place, "success", "You are signed in again.", `${kept()} Try again.`);
  } catch {
    /* if it failed, the next press of the button reports it */
  }
});

// Whether somebody has begun to fill in a form, so that leaving the page would lose what they typed.
function begun() {
  const changed = (field) => {
    if (field.matches("[type=checkbox], [type=radio]")) return field.checked !== field.defaultChecked;
    if (field.matches("select"))
      return (
        ![...field.options].every((option) => option.selected === option.defaultSelected) && field.selectedIndex > 0
      );
    return field.type !== "hidden" && "defaultValue" in field && field.value !== field.defaultValue;
  };
  return [...document.querySelectorAll("main form[method=post]")].find(
    (form) => [...form.elements].some(changed) || form.querySelector("[aria-invalid=true]"),
  );
}

document.addEventListener("htmx:beforeRequest", (event) => {
  if (!navigator.onLine) offline.add(event.detail.xhr);
});
document.addEventListener("htmx:responseError", (event) => failed(event, "answer"));
document.addEventListener("htmx:sendError", (event) => failed(event, "network"));
document.addEventListener("htmx:timeout", (event) => failed(event, "time"));
document.addEventListener("htmx:beforeOnLoad", (event) => {
  const request = event.detail;
  if (request.xhr.status < 400) {
    behind.delete(event.target);
    tell();
  }
  if (!leadsToSignIn(request.xhr.getResponseHeader("HX-Redirect"))) return;
  const pressed = byPerson(request) && request.requestConfig.verb !== "get";
  const form = pressed ? event.target : begun();
  if (!form) return;
  event.preventDefault();
  const place = placeOf(form, pressed ? request.requestConfig.triggeringEvent : null);
  if (pressed || place.box.dataset.said !== "sign-in") signedOut(place);
});

function tell() {
  for (const part of behind.keys()) if (!part.isConnected) behind.delete(part);
  // If the WebSocket is lost too, the banner of live.js already says so.
  const needed = behind.size > 0 && document.getElementById("offline").hidden;
  if (banner.hidden !== needed) return;
  banner.hidden = !needed;
  banner.querySelector("[data-why]").textContent = [...behind.values()][0] ?? "";
}
// Parts that could not be updated are fetched again every 5 s. (Without the WebSocket live.js polls anyway; with it,
// nothing would be fetched before the next hint.)
setInterval(() => {
  tell();
  if (behind.size && !document.hidden) document.body.dispatchEvent(new CustomEvent("resync"));
}, 5000);
