// "Notify this browser": asks the person, subscribes at the browser's push service, and tells the hub.
const place = document.querySelector("[data-push]");

function key(text) {
  const raw = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(raw, (sign) => sign.charCodeAt(0));
}

function say(text) {
  place.querySelector("[data-push-said]").textContent = text;
}

async function subscribe() {
  if ((await Notification.requestPermission()) !== "granted") {
    say("The browser does not allow notifications of this page: its settings for this site do.");
    return;
  }
  await navigator.serviceWorker.register(place.dataset.worker);
  const registration = await navigator.serviceWorker.ready;
  let found = await registration.pushManager.getSubscription();
  const known = found?.options.applicationServerKey;
  // The key differs if the hub has got another SECRET_KEY since the browser subscribed.
  if (known && String(new Uint8Array(known)) !== String(key(place.dataset.push))) {
    await found.unsubscribe();
    found = null;
  }
  found ??= await registration.pushManager.subscribe({
    userVisibleOnly: true,
    applicationServerKey: key(place.dataset.push),
  });
  const { endpoint, keys } = found.toJSON();
  const response = await fetch(place.dataset.add, {
    method: "POST",
    headers: JSON.parse(document.body.getAttribute("hx-headers")),
    body: new URLSearchParams({
      endpoint,
      p256dh: keys.p256dh,
      auth: keys.auth,
      zone: Intl.DateTimeFormat().resolvedOptions().timeZone,
    }),
  });
  if (response.ok) location.reload();
  else say(`Not stored: ${(await response.text()).slice(0, 300)}`);
}

if (place && "serviceWorker" in navigator && "PushManager" in window) {
  place.hidden = false;
  place.querySelector("button").addEventListener("click", () => {
    say("");
    subscribe().catch((error) => say(`The browser could not subscribe: ${error.message}`));
  });
}
