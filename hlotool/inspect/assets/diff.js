"use strict";
// Jump from change to change, and hide kinds of changes.
const count = document.getElementById("count");
let here = -1;

function shown() {
  return [...document.querySelectorAll(".row.added, .row.removed, .row.changed, .row.moved")].filter(row =>
    getComputedStyle(row).display !== "none");
}

function jump(step) {
  const rows = shown();
  document.querySelector(".row.here")?.classList.remove("here");
  if (!rows.length) { count.textContent = "no change shown"; return; }
  here = here < 0 && step < 0 ? rows.length - 1 : Math.max(0, Math.min(here + step, rows.length - 1));
  for (let fold = rows[here].closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  rows[here].classList.add("here");
  rows[here].scrollIntoView({block: "center"});
  count.textContent = `${here + 1} of ${rows.length}`;
}

document.getElementById("next").addEventListener("click", () => jump(1));
document.getElementById("previous").addEventListener("click", () => jump(-1));
for (const button of document.querySelectorAll("button[data-kind]")) {
  button.addEventListener("click", () => {
    const hidden = document.body.classList.toggle(`no-${button.dataset.kind}`);
    button.setAttribute("aria-pressed", String(!hidden));
    here = -1;
    count.textContent = "";
  });
}
addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "n") jump(1);
  if (event.key === "N" || event.key === "p") jump(-1);
});
