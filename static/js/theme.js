// Runs before the first paint: sets the chosen theme, and marks on <html> that scripts run.
(() => {
  const root = document.documentElement;
  root.dataset.js = "";
  const apply = (theme) => {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
  };
  const stored = () => {
    try {
      return localStorage.getItem("taskhub.theme") ?? "system";
    } catch {
      return "system";
    }
  };
  apply(stored());
  document.addEventListener("DOMContentLoaded", () => {
    const selects = document.querySelectorAll("[data-theme-select]");
    for (const select of selects) {
      select.value = stored();
      select.closest("[hidden]")?.removeAttribute("hidden");
      select.addEventListener("change", () => {
        try {
          localStorage.setItem("taskhub.theme", select.value);
        } catch {
          /* not stored in a private window, so it applies to this page only */
        }
        apply(select.value);
        for (const other of selects) other.value = select.value;
      });
    }
  });
})();
