// Begins everything that the page does beyond showing what the server sent. For reading, none of it is needed.
import * as keyboard from "./keyboard.js";
import * as live from "./live.js";

// What the server sends for readers without JavaScript stays hidden until it works.
function prepare() {
  for (const hidden of document.querySelectorAll("[data-copy][hidden], [data-tick-all][hidden], [data-open-help][hidden]")) {
    hidden.hidden = false;
  }
  countTicks();
}

document.addEventListener("click", async (click) => {
  const copy = click.target.closest("[data-copy]");
  if (copy) {
    await navigator.clipboard.writeText(copy.dataset.copy);
    copy.textContent = "Copied";
  }
  if (click.target.closest("[data-open-help]")) keyboard.help();
  if (click.target.closest("[data-show-news]")) live.showNews();
});

// Ticks ------------------------------------------------------------------------------------------------------------

const ticks = () => [...document.querySelectorAll("[data-row] input[type=checkbox]")];

function countTicks() {
  const any = ticks().some((tick) => tick.checked);
  for (const button of document.querySelectorAll("[data-needs-tick]")) button.disabled = !any;
}

document.addEventListener("change", (change) => {
  if (change.target.matches("[data-tick-all]")) for (const tick of ticks()) tick.checked = change.target.checked;
  countTicks();
});

// A question before what cannot be undone, or concerns many ---------------------------------------------------------------

const confirmation = document.querySelector("[data-confirm]");
let agreed = null;

document.addEventListener("submit", (submit) => {
  const button = submit.submitter;
  if (!button?.dataset.ask || agreed === button) return;
  submit.preventDefault();
  confirmation.querySelector("p").textContent = button.dataset.ask;
  confirmation.returnValue = "no";
  confirmation.showModal();
  confirmation.onclose = () => {
    if (confirmation.returnValue !== "yes") return button.focus();
    agreed = button;
    button.form.requestSubmit(button);
  };
});

// The values of a chart at the time under the pointer -----------------------------------------------------------------

document.addEventListener("pointermove", (move) => {
  const plot = move.target.closest?.(".plot svg");
  for (const figure of document.querySelectorAll("[data-chart]")) read(figure, plot && figure.contains(plot) ? move.clientX : null);
});

function read(figure, x) {
  const box = figure.querySelector("svg")?.getBoundingClientRect();
  if (!box || (x === null && !figure.dataset.read)) return;
  figure.dataset.read = x === null ? "" : "1";
  for (const name of figure.querySelectorAll(".legend span")) {
    const shown = name.querySelector("b");
    const line = figure.querySelector(`polyline.${name.className}`);
    shown.dataset.total ??= shown.textContent;
    const points = line.points;
    const at = points[Math.min(points.length - 1, Math.max(0, Math.round(((x - box.left) / box.width) * (points.length - 1))))];
    const value = ((99 - at.y) / 98) * Number(figure.dataset.chart);
    shown.textContent = x === null ? shown.dataset.total : value >= 100 ? Math.round(value).toLocaleString("en") : value.toPrecision(2).replace(/\.0+$/, "");
  }
}

prepare();
live.start(prepare);
