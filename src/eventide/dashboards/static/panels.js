// Texts and tables of a query: facts, origins, commands, fate of rows, state, the life of a window.

import { byId, el, fill, setText } from "./dom.js";
import { batchLabel, bytes, count, duration, instant, plural } from "./format.js";

const TIMINGS = { EARLY: "early", ON_TIME: "on time", LATE: "late" };

export function healthClass(word) {
  return `badge ${word.replace(" ", "-")}`;
}

export function showHeader(query) {
  setText("title", query.id);
  const { word, why } = query.health;
  const badge = byId("health");
  badge.className = healthClass(word);
  setText("health", word);
  badge.title = why;
  document.title = `${query.id}: ${word}`;
  const trouble = word === "failed" || word === "stuck";
  byId("message").hidden = !trouble;
  if (trouble) setText("message", `${word === "failed" ? "Failed" : "Stuck"}: ${why}`);
  setText("sentence", query.sentence);
}

export function showFacts(query) {
  const running = { true: "yes", false: "no", null: "unknown" }[query.running];
  const age = Math.max(0, Date.now() * 1000 - query.at);
  const behind = query.at - query.watermark + (query.running ? age : 0); // it grows while no batch ends
  const entries = [
    ["watermark (UTC)", query.drained ? "drained" : instant(query.watermark)],
    ["behind the clock", query.drained || query.watermark === null ? "–" : duration(behind)],
    ["batch", query.batch === null ? "none yet" : `${count(query.batch)}`],
    ["last batch", query.at === null ? "–" : `${duration(age)} ago`],
    ["open windows", count(query.state.open_windows)],
    ["running", running],
  ];
  fill(byId("facts"), ...entries.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

export function showOrigins(query, send) {
  const { origins, origin_count: known, idle_count: idle } = query;
  const parts = [plural(known, "origin")];
  if (idle) parts.push(`${count(idle)} idle`);
  const listed = origins.length;
  if (known > listed) parts.push(`the ${listed} listed are the slowest`);
  setText("origins-text", listed ? `${parts.join(", ")}.` : "The watermark of this query has no named origins.");
  byId("gaps-text").hidden = !query.gap_sentence;
  setText("gaps-text", query.gap_sentence);
  byId("origin-table").hidden = !listed;
  const control = query.allow_control && !query.drained;
  byId("origin-commands").hidden = !control;
  byId("drain").hidden = !control;
  const first = query.gap_ranges[0];
  byId("skip-gap").hidden = !(control && query.gaps && !(first && origins.some(({ name }) => name === first.origin)));
  const most = Math.max(...origins.map((origin) => (origin.idle ? 0 : origin.lag ?? 0)), 1); // idle ones may be far away
  const focused = document.activeElement?.dataset?.key;
  fill(byId("origins"), ...origins.map((origin) => originRow(origin, most, query, control, send)));
  if (focused) document.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

function originRow(origin, most, query, control, send) {
  const bar = el("span", { class: "fill" });
  bar.style.width = `${Math.max(0, Math.min(100, ((origin.lag ?? 0) / most) * 100))}%`;
  const lag = el("div", { class: "lag" }, el("b", {}, origin.lag === null ? "unknown" : duration(origin.lag)),
    el("span", { class: "track", "aria-hidden": "true" }, bar));
  const status = query.drained ? "drained" : origin.idle ? "idle" : origin.holds ? "holds the watermark" : "active";
  const name = origin.name ?? "(no origin)";
  const cell = (props, ...children) => el("td", { role: "cell", ...props }, ...children); // on a phone, rows are a grid
  const row = el("tr", { role: "row", class: origin.holds ? "holds" : origin.idle ? "idle" : "" },
    cell({ class: "name" }, name), cell({}, lag), cell({ class: "wide" }, instant(origin.watermark)),
    cell({ class: "status" }, status));
  if (control) {
    const commands = cell({ class: "commands" }, el("button", { type: "button", "data-key": `retire ${name}`,
      "aria-label": `Retire ${name}`, onclick: () => send("retire", origin.name) }, "Retire"));
    const gap = query.gap_ranges.find((range) => range.origin === origin.name) ?? null;
    if (gap) {
      const which = gap.first === gap.last ? `${gap.first}` : `${gap.first} to ${gap.last}`;
      commands.append(" ", el("button", { type: "button", "data-key": `skip ${name}`,
        "aria-label": `Skip ${which} of ${name}`, onclick: () => send("skip_gap", origin.name, gap) }, `Skip ${which}`));
    }
    row.append(commands);
  }
  return row;
}

export function showCommands({ pending, applied }, running) {
  const name = (command) => [command.action ?? command.do, command.origin].filter(Boolean).join(" ");
  const waits = running === false ? "sent; a stopped query applies it when it starts" : "sent, waits for the next batch";
  const lines = [
    ...pending.map((command) => `${name(command)}: ${waits}`),
    ...applied.map((command) => command.known
      ? `${name(command)}: applied in batch ${command.batch}, ${command.at}`
      : `${name(command)}: ignored in batch ${command.batch}, there is no such origin`),
  ];
  byId("commands-title").hidden = !lines.length;
  const list = byId("commands");
  if ([...list.children].map((item) => item.textContent).join("\n") !== lines.join("\n")) {
    fill(list, ...lines.map((line) => el("li", {}, line)));
  }
}

const lettersOf = ({ dead }) => Object.values(dead).reduce((sum, number) => sum + number, 0);

/** Rows in = rows in windows + late + dead, of one operator. */
function equation({ rows, kept, late, dead, kept_as: keptAs, balanced }, letters) {
  const reasons = Object.entries(dead);
  const why = reasons.length ? ` (${reasons.map(([reason, number]) => `${count(number)} ${reason}`).join(", ")})` : "";
  return [el("b", {}, plural(rows, "row")), " in = ", el("b", { class: "kept" }, count(kept)),
    ` ${keptAs} + `, el("b", { class: "c-late" }, count(late)), " late + ",
    el("b", { class: "c-dead" }, count(letters)), ` dead${why} `, balanced ? "✓" : "✗"];
}

/** The late rows and dead letters of all operators. */
export function unusedRows({ fate, later_fates: later }) {
  const fates = [fate, ...later], sum = (number) => fates.reduce((total, each) => total + number(each), 0);
  return { late: sum((each) => each.late), dead: sum(lettersOf) };
}

export function showFate({ fate, later_fates: later }) {
  const { kept, late, refined, since } = fate, letters = lettersOf(fate);
  const balanced = [fate, ...later].every((each) => each.balanced);
  fill(byId("equation"), ...equation(fate, letters));
  fill(byId("later-equations"), ...later.map((each) =>
    el("li", {}, `Operator ${each.operator}: `, ...equation(each, lettersOf(each)))));
  const parts = [["b-kept", kept], ["b-late", late], ["b-dead", letters]].filter(([, number]) => number);
  fill(byId("fate-bar"), ...parts.map(([name, number]) => {
    const part = el("span", { class: name });
    part.style.flexGrow = String(number);
    return part;
  }));
  const adds = balanced ? "Every row is accounted for." : "The counts do not add up: the history is incomplete.";
  const counted = since === null ? "" : ` Counted since ${instant(since)}: the history does not hold earlier batches.`;
  setText("fate-note", `${adds}${counted} ${refined ? `${plural(refined, "row")} in windows arrived behind the watermark, within the allowed lateness.` : ""}`);
}

export function showState(query) {
  const { state } = query;
  const place = { driver: "in the driver", executors: "on the executors" }[state.placement];
  const parts = [`${bytes(state.state_bytes)} ${place ?? "(placement unknown)"}`, plural(state.open_windows, "open window")];
  if (state.pages) parts.push(plural(state.pages, "page"));
  if (state.buckets > 1) parts.push(plural(state.buckets, "bucket"));
  if (state.in_flight) parts.push(`${plural(state.in_flight, "row")} in flight`);
  if (state.growth !== null) {
    const grows = Math.abs(state.growth) < 1 ? "not growing" : `${state.growth < 0 ? "shrinking" : "growing"} by ${bytes(Math.abs(state.growth))} per minute`;
    parts.push(grows);
  }
  setText("state-text", `${parts.join(", ")}.`);
  setText("unreadable", state.unreadable ?? "");
  byId("read-state").hidden = Boolean(state.unreadable);
  const facts = Object.entries(state.plan);
  byId("plan-section").hidden = !facts.length;
  fill(byId("plan"), ...facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

/** What the state holds by key, as it was read. */
export function showKeys(operators) {
  fill(byId("keys"), ...operators.flatMap(({ operator, at, keys, largest, closes_next: closing }) => [
    el("p", { class: "note" }, `${operators.length > 1 ? `Operator ${operator}: ` : ""}${keys ? plural(keys, "key") : "no keys"} in state at ${instant(at)}.`),
    ...(largest.length ? [el("h3", {}, "Largest keys"), keyTable(largest)] : []),
    ...(closing === null ? [] : [el("h3", {}, "The state limit closes next"), closingList(closing)]),
  ]));
}

function keyTable(largest) {
  const head = ["key", "entries", "rows", "bytes"].map((name, i) => el("th", { scope: "col", class: i ? "number" : "" }, name));
  const rows = largest.map(({ key, entries, rows, bytes: size }) => el("tr", {}, el("td", { class: "name" }, key),
    ...[count(entries), rows === null ? "–" : count(rows), bytes(size)].map((cell) => el("td", { class: "number" }, cell))));
  return el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows)));
}

function closingList(closing) {
  if (!closing.length) return el("p", { class: "note" }, "None: the newest window stays open.");
  const room = (row) => (row.limit === "bytes" ? `${bytes(row.room)} of all keys` : `${plural(row.room, "row")} of the key`);
  return el("ul", { class: "plain" }, ...closing.map((row) =>
    el("li", {}, `${row.key}: ${row.window_start} to ${row.window_end}, after more than ${room(row)}.`)));
}

export function showWindows(data, chosen) {
  const { panes } = data;
  const windows = new Map();
  panes.start.forEach((start, i) => windows.set(`${start} ${panes.end[i]}`, [start, panes.end[i]]));
  byId("life").hidden = !windows.size;
  const select = byId("window");
  const keep = chosen ?? select.value;
  const shown = [...windows].sort((a, b) => b[1][0] - a[1][0]).slice(0, 60);
  if (keep && windows.has(keep) && !shown.some(([key]) => key === keep)) shown.push([keep, windows.get(keep)]);
  showOptions(select, shown.map(([key, [start, end]]) => [key, `${instant(start)} to ${instant(end)}`]));
  if (keep && windows.has(keep) && select.value !== keep) select.value = keep;
  showLife(data, select.value);
}

/** Adds and removes options where they differ. Others stay, so that a list that is open or has the focus keeps both. */
function showOptions(select, entries) {
  const wanted = new Set(entries.map(([value]) => value));
  for (const option of [...select.options]) if (!wanted.has(option.value)) option.remove();
  const known = new Map([...select.options].map((option) => [option.value, option]));
  entries.forEach(([value, text], i) => {
    const option = known.get(value) ?? el("option", { value }, text);
    if (select.options[i] !== option) select.insertBefore(option, select.options[i] ?? null);
  });
}

/** Lists what happened to a window: its rows as far as the history has them, the watermark, panes and retractions. */
export function showLife({ panes, points, density }, key) {
  const [start, end] = key.split(" ").map(Number), lines = [];
  let before = -Infinity;
  const emissions = panes.start.map((_, i) => i).filter((i) => `${panes.start[i]} ${panes.end[i]}` === key)
    .sort((a, b) => panes.at[a] - panes.at[b] || panes.diff[a] - panes.diff[b]);
  for (const i of emissions) {
    const { at, diff, timing } = { at: panes.at[i], diff: panes.diff[i], timing: panes.timing[i] };
    const what = diff < 0 ? "retracted" : `emitted ${TIMINGS[timing] ?? timing}`;
    const when = at < end ? `${duration(end - at)} before its end` : `${duration(at - end)} after its end`;
    const rows = diff > 0 && at > before ? rowsOfWindow(density, start, end, before, at) : 0;
    const since = rows >= 1 ? `, with about ${plural(rows, "row")}${before > -Infinity ? " since the emission before" : ""}` : "";
    if (diff > 0) before = at;
    lines.push([at, diff, `${instant(at)}: ${what} for ${plural(panes.keys[i], "key")}, ${when}${since} (batch ${panes.batch[i]})`]);
  }
  const passed = points.watermark.findIndex((time) => time !== null && time >= end);
  if (passed > 0 || (passed === 0 && points.watermark_low[0] < end)) { // otherwise it passed before this range
    lines.push([points.at[passed], -2, `${instant(points.at[passed])}: the watermark passes the end of the window, ${duration(points.lag[passed])} behind the clock (${batchLabel(points, passed)})`]);
  }
  lines.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  fill(byId("life-list"), ...lines.map(([, , line]) => el("li", {}, line)));
}

/** The rows of a window that arrived in a span of time, estimated from the bins of their event times. */
function rowsOfWindow({ at, low, high, rows }, start, end, from, to) {
  let sum = 0;
  at.forEach((time, i) => {
    if (time <= from || time > to) return;
    const wide = (high[i] - low[i]) / rows[i].length;
    rows[i].forEach((number, bin) => {
      const left = low[i] + bin * wide;
      sum += number * Math.max(0, Math.min(left + wide, end) - Math.max(left, start)) / wide;
    });
  });
  return Math.round(sum);
}

export function showTable(points) {
  const rows = [];
  for (let i = points.at.length - 1; i >= 0 && rows.length < 20; i -= 1) {
    const batch = points.batches[i] > 1 ? `${points.first_batch[i]}–${points.batch[i]}` : String(points.batch[i]);
    const panes = points.early[i] + points.on_time[i] + points.late_panes[i];
    const number = (value) => el("td", { class: "number" }, value);
    rows.push(el("tr", {}, number(batch), el("td", {}, instant(points.at[i])),
      el("td", {}, points.drained[i] ? "drained" : instant(points.watermark[i])), el("td", {}, duration(points.lag[i])),
      number(count(points.rows[i])), number(count(points.late[i])), number(count(points.dead[i])),
      number(count(panes)), number(points.seconds[i].toFixed(2))));
  }
  fill(byId("batch-rows"), ...rows);
}
