// Keys: / searches, j and k move between rows, g and a letter go to a screen.
const base = document.body.dataset.base;
const PLACES = { o: "/", e: "/events", s: "/sessions", c: "/contracts", d: "/dead-letters", t: "/streams" };

let current = null;
let going = false;

export function help() {
  document.querySelector("[data-help]").showModal();
}

function move(step) {
  const rows = [...document.querySelectorAll("[data-row]")];
  if (!rows.length) return;
  const index = rows.findIndex((row) => row.id === current);
  const next = rows[Math.min(rows.length - 1, Math.max(0, index + step))];
  for (const row of rows) row.classList.toggle("current", row === next);
  current = next.id;
  next.scrollIntoView({ block: "nearest" });
  next.querySelector("a")?.focus({ preventScroll: true });
}

document.addEventListener("keydown", (press) => {
  if (press.ctrlKey || press.metaKey || press.altKey || document.querySelector("dialog[open]")) return;
  if (press.target.matches("input:not([type=checkbox], [type=radio]), textarea, select")) {
    if (press.key === "Escape") press.target.blur();
    return;
  }
  const wasGoing = going;
  going = press.key === "g";
  if (wasGoing && PLACES[press.key]) location.href = base + PLACES[press.key];
  else if (press.key === "/") document.querySelector("[data-search]")?.focus();
  else if (press.key === "j") move(1);
  else if (press.key === "k") move(-1);
  else if (press.key === "x") document.getElementById(current)?.querySelector("input[type=checkbox]")?.click();
  else if (press.key === "n") document.querySelector("[data-news]:not([hidden]) button")?.click();
  else if (press.key === "?") help();
  else return;
  press.preventDefault();
});
