// The page: a list of queries, or one query that is followed by server-sent events.

import { TimeChart } from "./charts.js";
import { byId, el, fill, legend, setText } from "./dom.js";
import { batchLabel, bytes, count, duration, plural, short } from "./format.js";
import { Plane } from "./plane.js";
import * as panels from "./panels.js";

const PHASES = [["read", "read rows"], ["compute", "compute and commit"], ["deliver", "sinks"]];
const LATENCY = [["disorder", "disorder and delay of the watermark"], ["slowest", "slowest origin"],
  ["interval", "waiting for a batch"], ["processing", "processing"]];
const RECENT = 200; // batches that the page shows at first, and while it follows a query
const seconds = (value) => duration(value * 1e6);
const state = { id: null, query: null, charts: null, events: null, follow: true, whole: false, timer: null, fetching: false, again: false };

if (new URLSearchParams(location.search).has("token")) { // it is a cookie now: keep it out of the history
  history.replaceState(null, "", location.pathname + location.hash);
}

const plane = new Plane(byId("plane"), {
  onView(what) {
    if (what === "fit") fit();
    else if (what === "follow") toggleFollow();
    else { setFollow(false); reload(250); }
  },
  onPane(start, end) {
    if (state.charts) panels.showWindows(state.charts, `${start} ${end}`);
  },
  onItem: (lines) => setText("plane-item", lines.join("; ")),
});
const charts = {
  fate: new TimeChart(byId("fate-chart"), { format: short }),
  lag: new TimeChart(byId("lag-chart"), { kind: "lines", format: duration }),
  latency: new TimeChart(byId("latency-chart"), { format: duration }),
  batch: new TimeChart(byId("batch-chart"), { format: seconds }),
  emitted: new TimeChart(byId("emitted-chart"), { format: short }),
  state: new TimeChart(byId("state-chart"), { kind: "lines", format: bytes }),
};

async function get(path) {
  const response = await fetch(path, { credentials: "same-origin" });
  if (!response.ok) throw new Error((await response.json().catch(() => ({}))).message ?? `status ${response.status}`);
  return response.json();
}

const path = (id) => `/api/queries/${id.split("/").map(encodeURIComponent).join("/")}`;

const problems = new Map();

/** Shows what went wrong with a request, by what was asked for, until it succeeds or the user has seen it. */
function problem(what, text) {
  if (text) problems.set(what, text); else problems.delete(what);
  byId("problem").hidden = !problems.size;
  setText("problem-text", [...problems.values()].join(" "));
}

function forgetProblems() {
  problems.clear();
  problem("", "");
}

function setFollow(follow) {
  state.follow = follow;
  byId("follow").setAttribute("aria-pressed", String(follow));
  if (follow) reload(0);
}

/** Follows the newest batches, from the whole history or a view of more than these; a closer view keeps its size. */
function toggleFollow() {
  if (state.follow && !state.whole) { setFollow(false); return; }
  state.whole = false;
  if (plane.view && plane.view.y1 - plane.view.y0 >= plane.recent) plane.view.fitted = true;
  setFollow(true);
}

function fit() {
  state.whole = true;
  if (plane.view) plane.view.fitted = true; // the next data are shown as a whole
  setFollow(true);
}

/** Reads the charts for the visible range, soon; requests never overlap. */
function reload(wait) {
  clearTimeout(state.timer);
  state.timer = setTimeout(load, wait);
}

async function load() {
  if (state.fetching) { state.again = true; return; }
  state.fetching = true;
  const id = state.id;
  try {
    const view = plane.view, fixed = view && !view.fitted;
    const range = fixed && !state.follow ? `&since=${Math.floor(view.y0)}&until=${Math.ceil(view.y1)}`
      : fixed ? `&since=${Math.floor((state.query?.at ?? view.y1) - (view.y1 - view.y0))}` : state.whole ? "" : `&last=${RECENT}`;
    const data = await get(`${path(id)}/charts?points=${Math.max(100, Math.min(600, Math.floor(innerWidth / 2)))}${range}`);
    if (id === state.id) show(data);
    performance.mark("shown"); // since the navigation: `python -m bench page` reads it
    problem("charts", "");
  } catch (error) {
    problem("charts", `The charts cannot be read: ${error.message}`);
  } finally {
    state.fetching = false;
    if (state.again) { state.again = false; reload(100); }
  }
}

function show(data) {
  const { points } = data;
  points.dead = points.at.map((_, i) => deadNames(points).reduce((sum, name) => sum + points[name][i], 0));
  state.charts = data;
  if (!points.at.length) return;
  plane.set(data, { follow: state.follow, recent: !state.whole, history: state.query ? state.query.at - state.query.since : 0 });
  const labels = points.at.map((_, i) => batchLabel(points, i));
  const set = (chart, series) => chart.set(points.at, points.since, series, labels);
  const dead = deadNames(points).filter((name) => points[name].some(Boolean));
  set(charts.fate, [
    { name: "in windows", colour: "kept", values: points.kept },
    { name: "late", colour: "late", values: points.late },
    ...dead.map((name) => ({ name: name.replace("dead_", "dead: "), colour: "dead", values: points[name] })),
  ]);
  set(charts.latency, LATENCY.map(([name, label]) => ({ name: label, colour: name, values: points[name] })));
  set(charts.lag, [{ name: "lag", colour: "watermark", values: points.lag }]);
  set(charts.emitted, [
    { name: "early", colour: "early", values: points.early },
    { name: "on time", colour: "on-time", values: points.on_time },
    { name: "late", colour: "late", values: points.late_panes },
  ]);
  set(charts.state, [{ name: "state", colour: "compute", values: points.state_bytes }]);
  showPhases(points, set);
  showTexts(data);
  panels.showWindows(data);
  panels.showTable(points);
}

const deadNames = (points) => Object.keys(points).filter((name) => name.startsWith("dead_"));

/** The mean duration of the batches of each point, by phase where the history has it. */
function showPhases(points, set) {
  const mean = (values) => values.map((value, i) => (value ?? 0) / points.batches[i]);
  const known = points.read_known.some(Boolean);
  const phases = known ? PHASES.map(([name, label]) => ({ name: label, colour: name, values: mean(points[name]) })) : [];
  const rest = points.seconds.map((total, i) =>
    Math.max(0, total - (known ? PHASES.reduce((sum, [name]) => sum + (points[name][i] ?? 0), 0) : 0)) / points.batches[i]);
  const other = known ? "other" : "compute";
  set(charts.batch, [...phases, { name: known ? "other" : "batch", colour: other, values: rest }]);
  legend("batch-legend", known
    ? [...PHASES.map(([name, label]) => [label, `var(--${name})`]), ["other", "var(--other)"]] : []);
}

function showTexts({ points, panes, density, traced }) {
  const last = points.at.length - 1;
  const all = points.batches.reduce((sum, number) => sum + number, 0);
  const time = points.seconds.reduce((sum, number) => sum + number, 0);
  const rows = points.rows.reduce((sum, number) => sum + number, 0);
  const longest = Math.max(...points.seconds_max);
  setText("batches-text", time ? `${plural(all, "batch", "batches")}, ${seconds(time / all)} on average, ${seconds(longest)} at most, ${short(rows / time)} rows/s.`
    : "The history has no durations.");
  const lags = points.lag.filter((lag) => lag !== null);
  setText("lag-text", lags.length ? `${duration(lags.at(-1))} at the last batch, at most ${duration(Math.max(...lags))} in this range.` : "No watermark is known in this range.");
  setText("latency-text", latencyText(points));
  const total = (name) => points[name].reduce((sum, number) => sum + number, 0);
  setText("emitted-text", `${count(total("early"))} early, ${count(total("on_time"))} on time, ${count(total("late_panes"))} late, ${count(total("retractions"))} retracted in this range.`);
  const notes = [];
  if (state.follow && !state.whole && state.query?.batches > all + 1) {
    notes.push(`The newest ${count(all)} of ${plural(state.query.batches, "batch", "batches")}: Fit shows the whole history.`);
  }
  if (!traced) notes.push("Panes are drawn for a query that runs with --dashboard or --trace.");
  else if (panes.at.length >= 800) notes.push("Only the newest 800 panes are drawn: zoom in for others.");
  if (!density.at.length) notes.push("The history has no event times of rows, so their density is not drawn.");
  if (points.drained[last]) notes.push("The stream was drained: its time has ended.");
  notes.push("Crosses are late rows. At the left edge: diamonds are dead letters, crosses are late rows whose event times are unknown or before this view.");
  if (plane.labels) notes.push("Numbers in panes count their keys.");
  setText("plane-text", notes.join(" "));
}

/** The parts of the newest point with a watermark, the largest first. */
function latencyText(points) {
  const newest = points.disorder.findLastIndex((value) => value !== null);
  if (newest < 0) return "Without a watermark, it cannot be estimated.";
  const parts = LATENCY.map(([name, label]) => [points[name][newest] ?? 0, label]);
  const sum = parts.reduce((total, [value]) => total + value, 0);
  const largest = parts.filter(([value]) => Math.abs(value) >= 1000).sort((a, b) => b[0] - a[0]);
  return `About ${duration(sum)} at the last batch: ${largest.map(([value, label]) => `${duration(value)} ${label}`).join(" + ")}.`;
}

function showSummary(query) {
  const first = state.query === null, ended = state.query?.at !== query.at; // a batch has ended
  state.query = query;
  panels.showHeader(query);
  panels.showFacts(query);
  panels.showOrigins(query, confirmCommand);
  panels.showCommands(query.commands, query.running);
  panels.showFate(query);
  panels.showState(query);
  const live = query.running === true ? "live" : query.running === false ? "the query does not run" : "";
  setText("live", live);
  if (ended && (first || state.follow)) reload(first ? 0 : 300);
}

function follow(id) {
  state.events?.close();
  Object.assign(state, { id, query: null, charts: null });
  panels.showKeys([]);
  Object.assign(plane, { view: null, selected: null });
  Object.assign(state, { follow: true, whole: false });
  byId("follow").setAttribute("aria-pressed", "true");
  setText("plane-item", "");
  const events = new EventSource(`${path(id)}/events`);
  state.events = events;
  events.addEventListener("summary", (event) => showSummary(JSON.parse(event.data)));
  events.addEventListener("error", () => {
    setText("live", "connection lost, retrying");
    if (events.readyState === EventSource.CLOSED && state.events === events) refused(id); // the browser does not retry
  });
}

/** The server answers, but not with events: it has another token since its restart, or does not know the query. */
async function refused(id) {
  const { status } = await fetch(`${path(id)}/summary`, { credentials: "same-origin" }).catch(() => ({ status: 0 }));
  if (state.id !== id) return;
  if (status === 401) {
    setText("live", "signed out");
    problem("token", "The dashboard was started again with another token. Open the new URL that it has printed.");
  } else setTimeout(() => { if (state.id === id) follow(id); }, 3000);
}

const named = (origin) => origin ?? "the rows without an origin";
const numbers = ({ first, last }) => (first === last ? `number ${first}` : `numbers ${first} to ${last}`);

const WARNINGS = {
  retire: (origin) => [`Retire ${named(origin)}?`, `The watermark stops waiting for ${named(origin)}. If rows of it still arrive, they may be late. This cannot be undone.`, "Retire"],
  skip_gap: (origin, gap) => [gap ? `Skip ${numbers(gap)}?` : "Skip the first gap?", `The watermark stops waiting for ${gap ? `the sequence ${numbers(gap)}` : "the first missing sequence numbers"}${origin === null ? "" : ` of ${origin}`}. If they still arrive, their rows may be late.`, "Skip gap"],
  drain: () => ["Drain the query?", "The stream ends: every open window is emitted and closed, and all later rows are late. The checkpoint cannot be used again.", "Drain"],
};

function confirmCommand(what, origin = null, gap = null) {
  const [title, text, button] = WARNINGS[what](origin, gap);
  setText("confirm-title", title);
  setText("confirm-text", text);
  setText("confirm-yes", button);
  const dialog = byId("confirm");
  byId("confirm-yes").onclick = () => { dialog.close(); send(what, origin, gap); };
  byId("confirm-no").onclick = () => dialog.close();
  dialog.showModal();
  byId("confirm-no").focus();
}

async function send(what, origin, gap) {
  try {
    const response = await fetch(`${path(state.id)}/commands`, {
      method: "POST", credentials: "same-origin", headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ do: what, origin, up_to: Number.isSafeInteger(gap?.last) ? gap.last : undefined }),
    });
    if (!response.ok) throw new Error((await response.json()).message);
    problem("command", "");
  } catch (error) {
    problem("command", `The command was not sent: ${error.message}`);
  }
}

/** Reads the largest keys: only for this button, because it reads all state. */
async function readState() {
  const button = byId("read-state"), id = state.id;
  button.disabled = true;
  try {
    const { operators } = await get(`${path(id)}/state`);
    if (id === state.id) panels.showKeys(operators);
    problem("state", "");
  } catch (error) {
    problem("state", `The state was not read: ${error.message}`);
  } finally {
    button.disabled = false;
  }
}

async function showList() {
  const { queries } = await get("/api/queries");
  byId("no-queries").hidden = queries.length > 0;
  fill(byId("queries"), ...queries.map((query) => {
    const { late, dead } = panels.unusedRows(query);
    const ago = query.at === null ? "none yet" : `${duration(Math.max(0, Date.now() * 1000 - query.at))} ago`;
    const number = (value) => el("td", { class: "number wide" }, count(value));
    return el("tr", {}, el("td", { class: "name" }, el("a", { href: `#/${encodeURIComponent(query.id)}` }, query.id)),
      el("td", {}, el("span", { class: panels.healthClass(query.health.word) }, query.health.word)),
      el("td", { class: "why" }, query.health.why), number(query.fate.rows), number(late), number(dead),
      el("td", { class: "wide" }, ago));
  }));
  return queries;
}

let listing = null;

async function route() {
  clearInterval(listing);
  const id = decodeURIComponent(location.hash.slice(2));
  byId("list").hidden = Boolean(id);
  byId("query").hidden = !id;
  forgetProblems();
  byId("message").hidden = true;
  if (id) { follow(id); return; }
  state.events?.close();
  state.id = null;
  setText("title", "Queries");
  setText("health", "");
  setText("live", "");
  document.title = "Eventide";
  try {
    const queries = await showList();
    if (queries.length === 1 && !state.query) { location.replace(`#/${encodeURIComponent(queries[0].id)}`); return; }
    listing = setInterval(() => showList().then(() => problem("list", ""), (error) => problem("list", error.message)), 3000);
  } catch (error) {
    problem("list", `The queries cannot be read: ${error.message}`);
  }
}

const redraw = () => { plane.draw(); for (const chart of Object.values(charts)) chart.draw(); };

byId("follow").addEventListener("click", toggleFollow);
byId("fit").addEventListener("click", fit);
byId("zoom-in").addEventListener("click", () => plane.zoom(0.6));
byId("zoom-out").addEventListener("click", () => plane.zoom(1 / 0.6));
byId("read-state").addEventListener("click", readState);
byId("drain").addEventListener("click", () => confirmCommand("drain"));
byId("skip-gap").addEventListener("click", () => {
  const gap = state.query.gap_ranges[0] ?? null;
  confirmCommand("skip_gap", gap?.origin ?? null, gap);
});
byId("dismiss").addEventListener("click", forgetProblems);
byId("window").addEventListener("change", (event) => panels.showLife(state.charts, event.target.value));
addEventListener("hashchange", route);
addEventListener("resize", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
setInterval(() => { if (state.query) panels.showFacts(state.query); }, 1000);
legend("plane-legend", [["watermark", "var(--watermark)", "line"], ["ideal", "var(--ideal)", "dash"],
  ["rows", "rgba(var(--density), .5)"], ["early pane", "var(--early)"], ["on-time pane", "var(--on-time)"],
  ["late pane", "var(--late)"], ["retraction", "var(--retraction)", "hollow"], ["late rows", "var(--late)", "cross"],
  ["dead letters", "var(--dead)", "diamond"]]);
legend("latency-legend", LATENCY.map(([name, label]) => [label, `var(--${name})`]));
legend("fate-legend", [["in windows", "var(--kept)"], ["late", "var(--late)"], ["dead", "var(--dead)"]]);
legend("emitted-legend", [["early", "var(--early)"], ["on time", "var(--on-time)"], ["late", "var(--late)"]]);
route();
