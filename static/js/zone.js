// Fills in the browser's time zone where the person has chosen none yet.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

for (const control of document.querySelectorAll("[data-zone]")) {
  if (control.tagName !== "SELECT" || [...control.options].some((option) => option.value === zone)) {
    control.value = zone;
  }
}
