// The plane: event time across, processing time up. The watermark is a staircase, the ideal a thin diagonal.

import { css, prepare, tip } from "./dom.js";
import { batchLabel, count, duration, instant, plural, tick, timeTicks } from "./format.js";
import * as marks from "./plane_marks.js";

const LEFT = 84, BOTTOM = 40, TOP = 10, RIGHT = 12;
const GUTTER = 36; // of dead letters, and of late rows whose event times the history does not hold
const CLOSEST = 2; // batches that the closest view shows
const FARTHEST = 6; // times the data that the farthest view shows
const NAMES = { EARLY: "early", ON_TIME: "on time", LATE: "late" };

export class Plane {
  constructor(canvas, { onView, onPane, onItem }) {
    Object.assign(this, { canvas, onView, onPane, onItem, data: null, view: null, drag: null, pinch: null, pointers: new Map(),
      whole: null, recent: 0, selected: null });
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.release(event));
    canvas.addEventListener("pointercancel", (event) => this.cancel(event));
    // Two fingers zoom the plane, not the page; one finger scrolls the page or pans the plane.
    canvas.addEventListener("touchmove", (event) => { if (event.touches.length > 1) event.preventDefault(); }, { passive: false });
    canvas.addEventListener("pointerleave", () => tip(null));
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  /** Shows data; keeps the view of the user, if there is one. `history`: how long it is; `recent`: data is its end. */
  set(data, { follow, recent = false, history = 0 }) {
    const before = this.data;
    this.data = data;
    const { points } = data, batches = points.batches.reduce((sum, number) => sum + number, 0);
    if (batches > 2) this.interval = (points.at.at(-1) - points.since[0]) / (batches - 1);
    this.starts = marks.paneStarts(data.panes, data.density, points.since[0]);
    if (!this.view || this.view.fitted) {
      this.fit();
      if (recent && this.view) this.recent = this.view.y1 - this.view.y0;
      this.whole = Math.max(this.whole, history);
    } else if (follow && before) {
      const shift = this.extent().y1 - this.view.y1;
      if (shift > 0) for (const name of ["x0", "x1", "y0", "y1"]) this.view[name] += shift;
    }
    this.draw();
  }

  /** What the data covers. */
  extent() {
    const { points, panes, density, late } = this.data;
    const events = [...points.watermark, ...points.watermark_low, ...density.low, ...density.high, ...panes.start]
      .filter((time) => time !== null);
    const y0 = points.since[0], y1 = points.at.at(-1);
    let x0 = events.length ? Infinity : y0, x1 = events.length ? -Infinity : y1;
    for (const time of events) { x0 = Math.min(x0, time); x1 = Math.max(x1, time); }
    for (const end of panes.end) if (end < y1 + 6 * 3600e6) x1 = Math.max(x1, end);
    const near = x0 - 0.5 * (x1 - x0); // late rows that are further away are marked at the left edge
    for (const time of late.time) if (time !== null && time >= near) x0 = Math.min(x0, time);
    if (y1 - x1 < 4 * Math.max(y1 - y0, 1e6)) x1 = Math.max(x1, y1); // the ideal is in sight, if it is not far away
    return { x0, x1, y0, y1 };
  }

  fit() {
    if (!this.data?.points.at.length) { this.view = null; return; }
    const { x0, x1, y0, y1 } = this.extent();
    const w = Math.max(x1 - x0, 1e6), h = Math.max(y1 - y0, 1e6);
    this.view = { x0: x0 - w * 0.04, x1: x1 + w * 0.06, y0: y0 - h * 0.05, y1: y1 + h * 0.07, fitted: true };
    this.whole = Math.max(this.view.y1 - this.view.y0, (this.view.x1 - this.view.x0) / 10);
  }

  scales(width, height) {
    const { x0, x1, y0, y1 } = this.view;
    this.left = width < 500 ? 76 : LEFT;
    const left = this.left + GUTTER;
    return {
      x: (time) => left + ((time - x0) / (x1 - x0)) * (width - left - RIGHT),
      y: (time) => height - BOTTOM - ((time - y0) / (y1 - y0)) * (height - TOP - BOTTOM),
      timeAtX: (px) => x0 + ((px - left) / (width - left - RIGHT)) * (x1 - x0),
      timeAtY: (px) => y0 + ((height - BOTTOM - px) / (height - TOP - BOTTOM)) * (y1 - y0),
      left,
    };
  }

  draw() {
    const { context: ctx, width, height } = prepare(this.canvas);
    if (!this.view || width < 120) return;
    this.size = { width, height };
    const scale = this.scales(width, height);
    this.scale = scale;
    this.axes(ctx, scale, width, height);
    ctx.save();
    ctx.beginPath(); ctx.rect(scale.left, TOP, width - scale.left - RIGHT, height - TOP - BOTTOM); ctx.clip();
    const { points, panes, density } = this.data;
    marks.drawDensity(ctx, scale, density);
    marks.drawIdeal(ctx, scale, this.view);
    marks.drawPanes(ctx, scale, panes, this.starts);
    marks.drawWatermark(ctx, scale, points);
    const late = this.lateRows(scale, true);
    this.labels = marks.drawPaneLabels(ctx, scale, panes, this.starts, points, late);
    this.crowded = marks.drawMarks(ctx, late, "late", marks.cross);
    ctx.restore();
    ctx.save();
    ctx.beginPath(); ctx.rect(this.left, TOP, GUTTER, height - TOP - BOTTOM); ctx.clip();
    marks.drawMarks(ctx, this.lateRows(scale, false), "late", marks.cross, true);
    marks.drawMarks(ctx, this.deadLetters(scale), "dead", marks.diamond, true);
    ctx.restore();
    const item = this.selected && this.items().find((other) => compared(other.order, this.selected.order) === 0);
    if (item) marks.drawRing(ctx, item);
  }

  /** The panes, late rows and dead letters in sight, in the order of processing time: where they are, and their texts. */
  items() {
    const { panes, points } = this.data, { x, y } = this.scale, { height } = this.size;
    const late = [...this.lateRows(this.scale, true), ...this.lateRows(this.scale, false)]
      .map((mark) => ({ ...mark, order: [mark.at, 1, mark.time ?? -Infinity], lines: describedLate(mark) }));
    const dead = this.deadLetters(this.scale)
      .map((mark) => ({ ...mark, order: [mark.at, 2], lines: describedDead(points, mark.point) }));
    const shown = panes.at.flatMap((at, i) => {
      const left = Math.max(x(panes.start[i]), this.scale.left), right = Math.min(x(panes.end[i]), this.size.width - RIGHT);
      if (left > right || !inside(y(at), TOP, height - BOTTOM)) return [];
      const [start, end] = [panes.start[i], panes.end[i]], order = [at, 0, start, end, panes.diff[i], panes.timing[i]];
      return [{ x: (left + right) / 2, y: y(at), start, end, order, lines: describedPane(panes, i) }];
    });
    const visible = late.filter((mark) => mark.x <= this.size.width - RIGHT);
    return [...shown, ...visible, ...dead].sort((a, b) => compared(a.order, b.order));
  }

  /** Selects the next item in sight, or the previous one; the newest, if none is selected. */
  step(forward) {
    const items = this.items();
    if (!items.length) { this.onItem(["No pane, late row or dead letter is in sight"]); return; }
    const order = this.selected?.order;
    const next = !order ? items.at(-1)
      : forward ? items.find((item) => compared(item.order, order) > 0)
      : items.findLast((item) => compared(item.order, order) < 0);
    if (!next) { this.onItem([`This is the ${forward ? "newest" : "oldest"} in sight`]); return; }
    this.selected = next;
    this.onItem(next.lines);
    this.draw();
  }

  /** The marks of late rows: at their event times, or at the left edge if these are unknown or before the view. */
  lateRows({ x, y }, placed) {
    const { at, time, rows } = this.data.late, { height } = this.size;
    return at.map((when, i) => ({ y: y(when), rows: rows[i], at: when, time: time[i] }))
      .filter((mark) => (mark.time !== null && mark.time >= this.view.x0) === placed && inside(mark.y, TOP, height - BOTTOM))
      .map((mark) => ({ ...mark, x: placed ? x(mark.time) : this.left + 9 }));
  }

  deadLetters({ y }) {
    const { at, dead } = this.data.points;
    return at.map((when, i) => ({ x: this.left + 27, y: y(when), rows: dead[i], at: when, point: i }))
      .filter((mark) => mark.rows && inside(mark.y, TOP, this.size.height - BOTTOM));
  }

  axes(ctx, { x, y, left }, width, height) {
    const { x0, x1, y0, y1 } = this.view;
    ctx.lineWidth = 1;
    ctx.strokeStyle = css("grid");
    ctx.fillStyle = css("soft");
    const across = timeTicks(x0, x1, Math.max(3, Math.floor((width - left) / 105)));
    ctx.textAlign = "center"; ctx.textBaseline = "alphabetic";
    let labelled = 0; // where the last label ends
    for (const at of across.ticks) {
      const px = Math.round(x(at)) + 0.5;
      ctx.beginPath(); ctx.moveTo(px, TOP); ctx.lineTo(px, height - BOTTOM); ctx.stroke();
      const label = tick(at, across.step), half = ctx.measureText(label).width / 2;
      const place = Math.min(Math.max(px, left - 20 + half), width - 2 - half);
      if (place - half < labelled) continue;
      ctx.fillText(label, place, height - BOTTOM + 15);
      labelled = place + half + 8;
    }
    const up = timeTicks(y0, y1, Math.max(2, Math.floor((height - BOTTOM) / 52)));
    ctx.textAlign = "right"; ctx.textBaseline = "middle";
    for (const at of up.ticks) {
      const py = Math.round(y(at)) + 0.5;
      ctx.beginPath(); ctx.moveTo(left, py); ctx.lineTo(width - RIGHT, py); ctx.stroke();
      ctx.fillText(tick(at, up.step), this.left - 6, py);
    }
    ctx.strokeStyle = css("line");
    ctx.strokeRect(left + 0.5, TOP + 0.5, width - left - RIGHT - 1, height - TOP - BOTTOM - 1);
    ctx.textBaseline = "alphabetic"; ctx.textAlign = "center";
    ctx.fillText("event time (UTC) →", (left + width) / 2, height - 7);
    ctx.save();
    ctx.translate(10, (height - BOTTOM) / 2); ctx.rotate(-Math.PI / 2);
    ctx.fillText("processing time (UTC) →", 0, 0);
    ctx.restore();
  }

  /** The pane under the pointer: of several, that with the nearest emission. */
  paneAt(px, py) {
    const { start, end, at } = this.data.panes, { x, y } = this.scale;
    let best = -1;
    at.forEach((when, i) => {
      const top = y(when), bottom = Math.max(y(this.starts[i]), top + 5);
      if (px < x(start[i]) || px > x(end[i]) || py < top - 5 || py > bottom) return;
      if (best < 0 || Math.abs(top - py) <= Math.abs(y(at[best]) - py)) best = i;
    });
    return best;
  }

  describe(px, py) {
    const { panes, points } = this.data;
    const near = (mark) => Math.abs(mark.x - px) < 7 && Math.abs(mark.y - py) < 7;
    const late = [...this.lateRows(this.scale, true), ...this.lateRows(this.scale, false)].find(near);
    if (late) return describedLate(late);
    const dead = this.deadLetters(this.scale).find(near);
    if (dead) return describedDead(points, dead.point);
    const pane = this.paneAt(px, py);
    if (pane >= 0) return describedPane(panes, pane);
    let best = 0;
    points.at.forEach((at, i) => {
      if (Math.abs(this.scale.y(at) - py) < Math.abs(this.scale.y(points.at[best]) - py)) best = i;
    });
    const i = best, lines = [batchLabel(points, i), instant(points.at[i])];
    lines.push(points.drained[i] ? "drained" : `watermark ${instant(points.watermark[i])}`);
    if (points.lag[i] !== null) lines.push(`${duration(points.lag[i])} behind the clock`);
    lines.push(`${plural(points.rows[i], "row")}, ${count(points.late[i])} late, ${count(points.dead[i])} dead`);
    const emitted = points.early[i] + points.on_time[i] + points.late_panes[i];
    lines.push(`${plural(emitted, "pane")}, ${plural(points.retractions[i], "retraction")}`);
    return lines;
  }

  place(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  press(event) {
    if (!this.view) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, this.place(event));
    this.hold();
  }

  /** Begins to drag with one pointer, or to pinch with two. */
  hold() {
    const places = [...this.pointers.values()];
    this.drag = places.length === 1 ? { place: places[0], view: { ...this.view }, moved: this.drag !== null || this.pinch !== null } : null;
    this.pinch = places.length === 2 ? { places, view: { ...this.view } } : null;
  }

  move(event) {
    if (!this.view || !this.scale) return;
    const [px, py] = this.place(event);
    if (this.pointers.has(event.pointerId)) this.pointers.set(event.pointerId, [px, py]);
    if (this.pinch) { this.pinched(); return; }
    if (!this.drag) { tip(this.describe(px, py), event.clientX, event.clientY); return; }
    const [startX, startY] = this.drag.place;
    if (Math.abs(px - startX) + Math.abs(py - startY) < 4 && !this.drag.moved) return;
    this.drag.moved = true;
    tip(null);
    this.view = moved(this.drag.view, this.perPixel(this.drag.view), startX - px, py - startY);
    this.changed();
  }

  /** Two fingers: their distance zooms around the point between them, which follows them. */
  pinched() {
    const { places: [a, b], view } = this.pinch, [c, d] = [...this.pointers.values()];
    const distance = (one, other) => Math.max(Math.hypot(one[0] - other[0], one[1] - other[1]), 8);
    const middle = (one, other) => [(one[0] + other[0]) / 2, (one[1] + other[1]) / 2];
    const from = middle(a, b), to = middle(c, d);
    tip(null);
    this.view = view;
    const scale = this.scales(this.size.width, this.size.height);
    const zoomed = this.scaled(distance(a, b) / distance(c, d), scale.timeAtX(from[0]), scale.timeAtY(from[1]));
    this.view = moved(zoomed, this.perPixel(zoomed), from[0] - to[0], to[1] - from[1]);
    this.changed();
  }

  perPixel({ x0, x1, y0, y1 }) {
    const { width, height } = this.size;
    return [(x1 - x0) / (width - this.left - GUTTER - RIGHT), (y1 - y0) / (height - TOP - BOTTOM)];
  }

  cancel(event) {
    this.pointers.delete(event.pointerId);
    this.hold();
  }

  release(event) {
    const drag = this.drag;
    this.cancel(event);
    if (drag && !drag.moved && this.scale) {
      const [px, py] = this.place(event);
      const pane = this.paneAt(px, py);
      if (pane >= 0) this.onPane(this.data.panes.start[pane], this.data.panes.end[pane]);
      tip(this.describe(px, py), event.clientX, event.clientY);
    }
  }

  wheel(event) {
    if (!this.view || !this.scale || !(event.ctrlKey || event.metaKey || document.activeElement === this.canvas)) return;
    event.preventDefault();
    const [px, py] = this.place(event);
    this.zoom(Math.exp(event.deltaY * 0.002), this.scale.timeAtX(px), this.scale.timeAtY(py));
  }

  /** Zooms by a factor around a point; without a point around the watermark, so that data stays in sight. */
  zoom(factor, eventTime, time) {
    if (!this.view) return;
    const anchor = eventTime === undefined ? this.anchor() : [eventTime, time];
    this.view = this.scaled(factor, ...anchor);
    this.changed();
  }

  scaled(factor, x, y) {
    const { x0, x1, y0, y1 } = this.view;
    const least = Math.max(CLOSEST * (this.interval ?? 0), 1e4), most = FARTHEST * (this.whole ?? y1 - y0);
    const f = Math.min(Math.max(factor, least / (y1 - y0)), most / (y1 - y0));
    if ((factor < 1 && f >= 1) || (factor > 1 && f <= 1)) return this.view;
    return { x0: x - (x - x0) * f, x1: x + (x1 - x) * f, y0: y - (y - y0) * f, y1: y + (y1 - y) * f };
  }

  /** The newest point of the watermark in sight. With none in sight, the nearest moves to the middle of the view. */
  anchor() {
    const { at, watermark } = this.data.points, { x0, x1, y0, y1 } = this.view;
    const middle = [(x0 + x1) / 2, (y0 + y1) / 2];
    let nearest = null, least = Infinity;
    for (let i = at.length - 1; i >= 0; i -= 1) {
      if (watermark[i] === null) continue;
      if (inside(watermark[i], x0, x1) && inside(at[i], y0, y1)) return [watermark[i], at[i]];
      const distance = Math.hypot((watermark[i] - middle[0]) / (x1 - x0), (at[i] - middle[1]) / (y1 - y0));
      if (distance < least) { least = distance; nearest = [watermark[i], at[i]]; }
    }
    if (!nearest) return middle;
    this.view = moved(this.view, [1, 1], nearest[0] - middle[0], nearest[1] - middle[1]);
    return nearest;
  }

  key(event) {
    if (!this.view || event.ctrlKey || event.metaKey || event.altKey) return;
    const { x0, x1, y0, y1 } = this.view, w = (x1 - x0) / 8, h = (y1 - y0) / 8;
    const pan = { ArrowLeft: [-w, 0], ArrowRight: [w, 0], ArrowUp: [0, h], ArrowDown: [0, -h] }[event.key];
    if (pan) {
      this.view = moved(this.view, [1, 1], ...pan);
      this.changed();
    } else if (event.key === "+" || event.key === "=") this.zoom(0.7);
    else if (event.key === "-") this.zoom(1.4);
    else if (event.key === "0") this.onView("fit");
    else if (event.key === "f") this.onView("follow");
    else if (event.key === "n" || event.key === "p") this.step(event.key === "n");
    else if (event.key === "Enter" && this.selected?.start !== undefined) this.onPane(this.selected.start, this.selected.end);
    else if (event.key === "Escape" && this.selected) this.unselect();
    else return;
    event.preventDefault();
  }

  unselect() {
    this.selected = null;
    this.onItem([]);
    this.draw();
  }

  changed() {
    this.draw();
    this.onView("moved");
  }
}

const inside = (value, low, high) => value >= low && value <= high;

/** Whether a list of numbers is before another one (negative), or after it (positive). */
const compared = (a, b) => a.map((value, i) => (value === b[i] ? 0 : value < b[i] ? -1 : 1)).find((sign) => sign) ?? 0;

function describedLate({ rows, time, at }) {
  return [plural(rows, "late row"), time === null ? "event time unknown" : `event time about ${instant(time)}`, `arrived ${instant(at)}`];
}

function describedDead(points, i) {
  const reasons = Object.keys(points).filter((name) => name.startsWith("dead_") && points[name][i]);
  return [plural(points.dead[i], "dead letter"), ...reasons.map((name) => `${count(points[name][i])} ${name.replace("dead_", "")}`),
    `arrived ${instant(points.at[i])}`];
}

function describedPane({ diff, timing, keys, start, end, at, batch }, i) {
  const what = diff[i] < 0 ? "retraction" : `${NAMES[timing[i]] ?? timing[i]} pane`;
  return [`${what}, ${plural(keys[i], "key")}`, `window ${instant(start[i])}`, `to ${instant(end[i])}`,
    `${diff[i] < 0 ? "retracted" : "emitted"} ${instant(at[i])} in batch ${batch[i]}`];
}

/** A view that is moved by a number of steps. */
const moved = ({ x0, x1, y0, y1 }, [stepX, stepY], dx, dy) =>
  ({ x0: x0 + dx * stepX, x1: x1 + dx * stepX, y0: y0 + dy * stepY, y1: y1 + dy * stepY });
