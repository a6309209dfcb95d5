// What the plane draws: rows as density, panes as boxes with labels where they fit, the watermark, late rows.

import { css } from "./dom.js";

const COLOURS = { EARLY: "early", ON_TIME: "on-time", LATE: "late" };
const IMPORTANCE = { ON_TIME: 0, LATE: 1, EARLY: 2 }; // of labels, where not all fit
const WASH = 0.13, EDGE = 2.5, TAG_HEIGHT = 16, TAG_GAP = 2;
const CELL = 8; // pixels of a cell in which marks are added up
const TALLEST = 40; // pixels of the density of a batch
const BAR = 16; // pixels of the longest bar
const CROWDED = 0.3; // share of marks that may share a cell with others

export function drawDensity(ctx, { x, y }, { at, since, low, high, rows }) {
  let most = 0;
  for (const bins of rows) for (const number of bins) most = Math.max(most, number);
  if (!most) return;
  const colour = css("density");
  at.forEach((time, i) => {
    const bins = rows[i], wide = (high[i] - low[i]) / bins.length;
    const top = y(time); // a cell begins at the batch before, so that no row seems to arrive at another time
    const before = i ? y(at[i - 1]) : Math.max(y(since[0]), top + Math.min(at.length > 1 ? top - y(at[1]) : CELL, CELL));
    const tall = Math.min(Math.max(before - top, 1), TALLEST);
    bins.forEach((number, bin) => {
      if (!number) return;
      const from = x(low[i] + bin * wide), to = x(low[i] + (bin + 1) * wide);
      ctx.fillStyle = `rgba(${colour}, ${(0.08 + 0.4 * Math.sqrt(number / most)).toFixed(3)})`;
      ctx.fillRect(from, top, Math.max(to - from, 2), tall);
    });
  });
}

export function drawIdeal(ctx, { x, y }, { x0, x1, y0, y1 }) {
  const from = Math.max(x0, y0), to = Math.min(x1, y1);
  if (from >= to) return;
  ctx.strokeStyle = css("ideal");
  ctx.lineWidth = 1;
  ctx.setLineDash([4, 4]);
  ctx.beginPath(); ctx.moveTo(x(from), y(from)); ctx.lineTo(x(to), y(to)); ctx.stroke();
  ctx.setLineDash([]);
}

export function drawWatermark(ctx, { x, y }, { at, since, watermark, watermark_low: low, batches }) {
  ctx.strokeStyle = css("watermark");
  ctx.lineWidth = 2.2;
  ctx.beginPath();
  let before = null;
  at.forEach((time, i) => {
    if (watermark[i] === null) { before = null; return; }
    if (batches[i] > 1 && low[i] !== null) { // several batches: the lowest of them is kept, too
      if (before === null) ctx.moveTo(x(low[i]), y(since[i])); else { ctx.lineTo(before, y(since[i])); ctx.lineTo(x(low[i]), y(since[i])); }
      ctx.lineTo(x(watermark[i]), y(time));
    } else {
      if (before === null) ctx.moveTo(x(watermark[i]), y(time)); else ctx.lineTo(before, y(time));
      ctx.lineTo(x(watermark[i]), y(time));
    }
    before = x(watermark[i]);
  });
  ctx.stroke();
}

/** Since when each pane collected rows: the emission before it, the first rows of its window, or the window's start. */
export function paneStarts({ start, end, diff, at }, { at: rowsAt, since, low, high, rows }, first) {
  const last = new Map(); // the newest emission of a window, and the one before the panes at hand
  return start.map((from, i) => {
    const key = `${from} ${end[i]}`, known = last.get(key);
    if (diff[i] < 0) return at[i];
    if (known && known.at === at[i]) return known.before; // several panes of one batch: of different timing
    const before = known ? known.at : firstRows(from, end[i], at[i]);
    last.set(key, { at: at[i], before });
    return before;
  });

  function firstRows(from, to, until) {
    for (let i = 0; i < rowsAt.length && rowsAt[i] <= until; i += 1) {
      if (low[i] >= to || high[i] <= from) continue;
      const wide = (high[i] - low[i]) / rows[i].length;
      if (rows[i].some((number, bin) => number && low[i] + bin * wide < to && low[i] + (bin + 1) * wide > from)) return since[i];
    }
    return Math.min(Math.max(from, first), until);
  }
}

/** Panes as boxes from their first rows to their emission, coloured by timing; retractions as dashed lines above. */
export function drawPanes(ctx, { x, y }, panes, starts) {
  const { start, end, timing, diff, at } = panes;
  start.forEach((from, i) => {
    const left = x(from), wide = Math.max(x(end[i]) - left, 2), top = y(at[i]);
    if (diff[i] < 0) {
      ctx.strokeStyle = css("retraction"); ctx.lineWidth = 2.4;
      ctx.setLineDash(wide > 12 ? [3, 3] : []);
      ctx.beginPath(); ctx.moveTo(left, top - EDGE); ctx.lineTo(left + wide, top - EDGE); ctx.stroke();
      ctx.setLineDash([]);
      return;
    }
    const tall = y(starts[i]) - top;
    ctx.fillStyle = css(COLOURS[timing[i]] ?? "soft");
    if (tall > 3) {
      ctx.globalAlpha = WASH;
      ctx.fillRect(left, top, wide, tall);
      if (wide > 6 && tall > 6) {
        ctx.globalAlpha = 0.4; ctx.lineWidth = 1; ctx.strokeStyle = ctx.fillStyle;
        ctx.strokeRect(left + 0.5, top + 0.5, wide - 1, tall - 1);
      }
    }
    ctx.globalAlpha = 0.9;
    ctx.fillRect(left, top + EDGE - 1.5, wide > 4 ? wide - 1 : wide, 3);
    ctx.globalAlpha = 1;
  });
}

/** The number of keys of panes as labels that cover no other label, no late row and not the watermark, or are left out. */
export function drawPaneLabels(ctx, scale, panes, starts, points, late) {
  const taken = [...watermarkBoxes(scale, points), ...late.map(({ x, y }) => ({ x: x - 5, y: y - 5, wide: 10, tall: 10 }))];
  const emissions = new Map();
  panes.start.forEach((from, i) => {
    const key = `${from} ${panes.end[i]} ${panes.at[i]}`;
    emissions.set(key, [...(emissions.get(key) ?? []), i]);
  });
  const priority = (group) => Math.min(...group.map((i) => (panes.diff[i] > 0 ? IMPORTANCE[panes.timing[i]] ?? 3 : 3)));
  const groups = [...emissions.values()].sort((a, b) => priority(a) - priority(b) || panes.at[b[0]] - panes.at[a[0]]);
  ctx.textBaseline = "middle"; ctx.textAlign = "center";
  let drawn = 0;
  for (const group of groups) {
    const ordered = [...group].sort((a, b) => panes.diff[a] - panes.diff[b]);
    const emitted = ordered.filter((i) => panes.diff[i] > 0);
    if (emitted.length && (place(ordered) || place(emitted))) drawn += 1;
  }
  return drawn;

  function place(shown) {
    const texts = shown.map((i) => `${panes.diff[i] < 0 ? "−" : ""}${panes.keys[i]}`);
    const widths = texts.map((text) => ctx.measureText(text).width + 10);
    const wide = widths.reduce((sum, width) => sum + width + TAG_GAP, -TAG_GAP);
    const i = shown.at(-1), left = scale.x(panes.start[i]), right = scale.x(panes.end[i]), top = scale.y(panes.at[i]);
    if (wide + 6 > right - left) return false;
    const lines = [0, 1, 2, 3, 4, 5, 6].map((number) => top + 6 * (number + 1)).filter((y) => y + TAG_HEIGHT <= scale.y(starts[i]));
    const boxes = lines.flatMap((y) => [1, 0.75, 0.5, 0.25, 0].map((share) =>
      ({ x: left + 3 + share * (right - left - wide - 6), y, wide, tall: TAG_HEIGHT })));
    const box = boxes.find((candidate) => !taken.some((other) => overlap(candidate, other)));
    if (!box) return false;
    taken.push(box);
    let at = box.x;
    shown.forEach((pane, number) => { tag(ctx, at, box.y, widths[number], texts[number], panes, pane); at += widths[number] + TAG_GAP; });
    return true;
  }
}

/** What the staircase covers. */
function watermarkBoxes({ x, y }, { at, watermark }) {
  const boxes = [];
  for (let i = 1; i < at.length; i += 1) {
    if (watermark[i] === null || watermark[i - 1] === null) continue;
    const left = x(watermark[i - 1]), right = x(watermark[i]), top = y(at[i]);
    boxes.push({ x: left - 2, y: top, wide: 4, tall: y(at[i - 1]) - top });
    boxes.push({ x: Math.min(left, right), y: top - 2, wide: Math.abs(right - left), tall: 4 });
  }
  return boxes;
}

const overlap = (a, b) => a.x < b.x + b.wide && b.x < a.x + a.wide && a.y < b.y + b.tall && b.y < a.y + a.tall;

function tag(ctx, left, top, wide, text, { timing, diff }, i) {
  const colour = css(diff[i] < 0 ? "retraction" : COLOURS[timing[i]] ?? "soft");
  ctx.beginPath(); ctx.roundRect(left, top, wide, TAG_HEIGHT, 4);
  ctx.fillStyle = diff[i] < 0 ? css("card") : colour; ctx.fill();
  if (diff[i] < 0) { ctx.strokeStyle = colour; ctx.lineWidth = 1; ctx.setLineDash([3, 2]); ctx.stroke(); ctx.setLineDash([]); }
  ctx.fillStyle = diff[i] < 0 ? colour : css("card");
  ctx.fillText(text, left + wide / 2, top + TAG_HEIGHT / 2 + 0.5);
}

/** Marks with places and numbers of rows: a shape each; shaded cells, or bars, where shapes would cover each other. */
export function drawMarks(ctx, marks, colour, shape, bars = false) {
  const cells = new Map();
  for (const mark of marks) {
    const column = Math.floor(mark.x / CELL), row = Math.floor(mark.y / CELL), key = `${column} ${row}`;
    const cell = cells.get(key) ?? { column, row, marks: 0, rows: 0 };
    cell.marks += 1; cell.rows += mark.rows;
    cells.set(key, cell);
  }
  const sharing = [...cells.values()].reduce((sum, cell) => sum + (cell.marks > 1 ? cell.marks : 0), 0);
  ctx.fillStyle = ctx.strokeStyle = css(colour);
  if (sharing <= Math.max(4, CROWDED * marks.length)) {
    ctx.lineWidth = 1.8;
    for (const mark of marks) shape(ctx, mark, Math.min(3, Math.log10(mark.rows)));
    return false;
  }
  let most = 1;
  for (const { rows } of cells.values()) most = Math.max(most, rows);
  for (const { column, row, rows } of cells.values()) {
    ctx.globalAlpha = bars ? 0.75 : 0.12 + 0.78 * (Math.log1p(rows) / Math.log1p(most)) ** 2;
    if (bars) ctx.fillRect(marks[0].x - BAR / 2, row * CELL, Math.max((BAR * rows) / most, 1), CELL - 1);
    else ctx.fillRect(column * CELL, row * CELL, CELL - 1, CELL - 1);
  }
  ctx.globalAlpha = 1;
  return true;
}

export function cross(ctx, { x, y }, more) {
  const size = 4 + more;
  ctx.beginPath();
  ctx.moveTo(x - size, y - size); ctx.lineTo(x + size, y + size);
  ctx.moveTo(x + size, y - size); ctx.lineTo(x - size, y + size);
  ctx.stroke();
}

export function diamond(ctx, { x, y }, more) {
  const size = 4 + more;
  ctx.beginPath();
  ctx.moveTo(x, y - size); ctx.lineTo(x + size, y); ctx.lineTo(x, y + size); ctx.lineTo(x - size, y); ctx.fill();
}

/** Marks the item whose text is shown. */
export function drawRing(ctx, { x, y }) {
  ctx.strokeStyle = css("accent"); ctx.lineWidth = 2.5;
  ctx.beginPath(); ctx.arc(x, y, 11, 0, 2 * Math.PI); ctx.stroke();
}
