// Live updates: relative times, parts of the page that changed, and rows of new events.
const base = document.body.dataset.base;
const ROWS_MAX = 200;
const FLUSH_MS = 250; // the table changes at most four times a second, whatever arrives
const REFRESH_MS = 1000;
const LOST_MS = 3000; // a connection that ends is opened again after a second
const IDLE_MS = 3000; // deliveries end some time after the event that the feed reported

let prepared = () => {};

export function start(prepare) {
  prepared = prepare;
  follow();
  setInterval(updateTimes, 1000);
  setInterval(() => Date.now() - lastRefresh > IDLE_MS && refresh(), IDLE_MS);
}

// Relative times -------------------------------------------------------------------------------------------------

function ago(iso) {
  const seconds = (Date.now() - Date.parse(iso)) / 1000;
  const size = Math.abs(seconds);
  const text =
    size >= 86400 ? `${Math.floor(size / 86400)} d`
    : size >= 3600 ? `${Math.floor(size / 3600)} h`
    : size >= 60 ? `${Math.floor(size / 60)} min`
    : `${Math.floor(size)} s`;
  return seconds < -1 ? `in ${text}` : `${text} ago`;
}

function updateTimes() {
  for (const time of document.querySelectorAll("time[datetime]")) {
    const text = ago(time.getAttribute("datetime"));
    if (time.textContent !== text) time.textContent = text;
  }
}

// Parts that changed are replaced; all others stay as they are, so that nothing flickers -------------------------------

let refreshing = false;
let lastRefresh = 0;

export async function refresh() {
  const busy = document.activeElement?.matches("textarea, select, input:not([type=checkbox])");
  const ticked = document.querySelector("[data-row] input:checked");
  const asking = document.querySelector("dialog[open]");
  if (refreshing || document.hidden || busy || ticked || asking || !document.querySelector("[data-part]")) return;
  refreshing = true;
  lastRefresh = Date.now();
  try {
    const answer = await fetch(location.href.split("#")[0], { headers: { Accept: "text/html" } });
    if (answer.status === 401) return location.reload();
    if (answer.ok) adopt(new DOMParser().parseFromString(await answer.text(), "text/html"));
  } catch {
    // The daemon may be restarting; the next refresh tries again.
  } finally {
    refreshing = false;
  }
}

function adopt(fresh) {
  for (const part of document.querySelectorAll("[data-part]")) {
    const other = fresh.getElementById(part.id);
    if (!other || strip(other) === strip(part)) continue;
    const focused = part.contains(document.activeElement) ? document.activeElement.closest("[id]")?.id : null;
    const open = [...part.querySelectorAll("details")].map((details) => details.open);
    [...other.querySelectorAll("details")].forEach((details, index) => open[index] !== undefined && (details.open = open[index]));
    part.replaceWith(document.adoptNode(other));
    if (focused) document.getElementById(focused)?.querySelector("a, button")?.focus();
  }
  for (const row of fresh.querySelectorAll("[data-feed] [data-row]")) {
    const known = document.getElementById(row.id)?.querySelector(".result");
    const result = row.querySelector(".result");
    if (known && known.innerHTML !== result.innerHTML) known.replaceWith(document.adoptNode(result));
  }
  document.title = fresh.title;
  const icon = document.querySelector("link[rel=icon]");
  const other = fresh.querySelector("link[rel=icon]");
  if (other && icon.getAttribute("href") !== other.getAttribute("href")) icon.setAttribute("href", other.getAttribute("href"));
  prepared();
}

function strip(part) {
  return part.innerHTML.replace(/<time[^>]*>[^<]*<\/time>|<(button|input)[^>]*data-(copy|needs-tick|tick-all)[^>]*>[^<]*| class="current"| open=""/g, "");
}

// The feed -------------------------------------------------------------------------------------------------------

const feed = document.querySelector("[data-feed=on]");
const filters = new URLSearchParams(location.search);
const words = (filters.get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
let waiting = [];
let unseen = 0;
let timer = null;

function matches(event) {
  if (feed.dataset.stream) return event.stream === feed.dataset.stream;
  if (["type", "source", "stream"].some((name) => filters.get(name) && event[name] !== filters.get(name))) return false;
  const texts = [event.id, event.stream, event.type, event.source, JSON.stringify(event.properties)].map((text) => text.toLowerCase());
  return words.every((word) => texts.some((text) => text.includes(word)) || isProperty(event, word));
}

function isProperty(event, word) {
  const [name, ...value] = word.split("=");
  const found = Object.entries(event.properties ?? {}).find(([key]) => key.toLowerCase() === name);
  return value.length > 0 && found !== undefined && String(found[1]).toLowerCase() === value.join("=");
}

function cell(row, className, ...content) {
  const td = row.insertCell();
  td.className = className;
  td.append(...content);
}

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function rowOf(event) {
  const row = document.createElement("tr");
  row.dataset.row = "";
  row.id = event.id;
  row.className = "new";
  cell(row, "grow", element("a", event.type, { href: `${base}/events/${encodeURIComponent(event.id)}` }));
  cell(row, "result", element("span", "…", { class: "none" }));
  if (feed.dataset.stream) cell(row, "wide number", String(event.seq));
  else if (event.stream === event.id) cell(row, "wide");
  else cell(row, "wide", element("a", event.stream, { class: "plain", href: `${base}/streams/${encodeURIComponent(event.stream)}` }), " ", element("small", `#${event.seq}`));
  cell(row, "wide", event.source);
  cell(row, "wider", element("code", event.id.length > 18 ? `${event.id.slice(0, 16)}…` : event.id));
  cell(row, "time", element("time", ago(event.accepted_at), { datetime: event.accepted_at, title: event.accepted_at }));
  return row;
}

// While someone reads the table, new events are counted and not pushed in between.
const isRead = () => scrollY > 120 || feed.matches(":hover, :focus-within");

export function showNews() {
  scrollTo(0, 0);
  document.activeElement?.blur();
  insert();
}

function insert() {
  const known = waiting.slice(-ROWS_MAX).filter((event) => !document.getElementById(event.id));
  waiting = [];
  unseen = 0;
  feed.prepend(...known.reverse().map(rowOf));
  while (feed.rows.length > ROWS_MAX) feed.deleteRow(-1);
  document.querySelector("[data-table]").hidden = false;
  document.querySelector("[data-empty]")?.remove();
  document.querySelector("[data-news]").hidden = true;
}

function flush() {
  timer = null;
  if (feed && !document.hidden && waiting.length) {
    if (isRead()) {
      const news = document.querySelector("[data-news]");
      news.hidden = false;
      news.querySelector("button").textContent = `${unseen.toLocaleString("en")} new event${unseen === 1 ? "" : "s"}`;
    } else insert();
  }
  if (Date.now() - lastRefresh > REFRESH_MS) refresh();
}

function follow() {
  const sign = document.querySelector("[data-live]");
  if (!sign) return;
  const source = new EventSource(`${base}/live`);
  let lost = null;
  const show = (on) => {
    clearTimeout(lost);
    sign.hidden = false;
    sign.classList.toggle("on", on);
    sign.querySelector("[data-live-text]").textContent = on ? "live" : "reconnecting";
  };
  source.onopen = () => show(true);
  source.onerror = () => (lost = setTimeout(show, LOST_MS, false));
  source.onmessage = (message) => {
    timer ??= setTimeout(flush, FLUSH_MS);
    if (!feed) return;
    const event = JSON.parse(message.data);
    if (!matches(event)) return;
    unseen += 1;
    waiting.push(event);
    if (waiting.length > ROWS_MAX * 2) waiting = waiting.slice(-ROWS_MAX);
  };
}
