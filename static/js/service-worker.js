// Shows what the hub pushes, and leads a click to the card. It keeps nothing and answers no request of a page.
self.addEventListener("push", (event) => {
  let told = {};
  try {
    told = event.data?.json() ?? {};
  } catch {
    // Show something even if the data cannot be read: a browser ends a subscription whose messages are not shown.
  }
  event.waitUntil(
    self.registration.showNotification(told.title ?? "TaskHub", {
      body: told.body ?? "",
      tag: told.tag ?? "taskhub",
      data: { path: told.path ?? "" },
    }),
  );
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const url = new URL(event.notification.data?.path ?? "", self.registration.scope);
  const href = url.origin === self.location.origin ? url.href : self.location.origin;
  event.waitUntil(self.clients.openWindow(href));
});
