// The plane: event time across, processing time up. The watermark is a staircase, the ideal a thin diagonal.

import { css, prepare, tip } from "./dom.js";
import { count, duration, instant, plural, tick, timeTicks } from "./format.js";

const LEFT = 84, BOTTOM = 40, TOP = 10, RIGHT = 12;
const GUTTER = 30; // of late rows and dead letters, whose event times the history does not hold
const COLOURS = { EARLY: "early", ON_TIME: "on-time", LATE: "late" };
const NAMES = { EARLY: "early", ON_TIME: "on time", LATE: "late" };

export class Plane {
  constructor(canvas, { onView, onPane }) {
    Object.assign(this, { canvas, onView, onPane, data: null, view: null, drag: null });
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.release(event));
    canvas.addEventListener("pointerleave", () => tip(null));
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  /** Shows data; keeps the view of the user, if there is one. */
  set(data, { follow }) {
    const before = this.data;
    this.data = data;
    if (!this.view || this.view.fitted) this.fit();
    else if (follow && before) {
      const shift = this.extent().y1 - this.view.y1;
      if (shift > 0) for (const name of ["x0", "x1", "y0", "y1"]) this.view[name] += shift;
    }
    this.draw();
  }

  /** What the data covers. */
  extent() {
    const { points, panes, density } = this.data;
    const events = [...points.watermark, ...points.watermark_low, ...density.low, ...density.high, ...panes.start]
      .filter((time) => time !== null);
    const y0 = points.since[0], y1 = points.at.at(-1);
    let x0 = events.length ? Infinity : y0, x1 = events.length ? -Infinity : y1;
    for (const time of events) { x0 = Math.min(x0, time); x1 = Math.max(x1, time); }
    for (const end of panes.end) if (end < y1 + 6 * 3600e6) x1 = Math.max(x1, end);
    if (y1 - x1 < 4 * Math.max(y1 - y0, 1e6)) x1 = Math.max(x1, y1); // the ideal is in sight, if it is not far away
    return { x0, x1, y0, y1 };
  }

  fit() {
    if (!this.data?.points.at.length) { this.view = null; return; }
    const { x0, x1, y0, y1 } = this.extent();
    const w = Math.max(x1 - x0, 1e6), h = Math.max(y1 - y0, 1e6);
    this.view = { x0: x0 - w * 0.04, x1: x1 + w * 0.06, y0: y0 - h * 0.05, y1: y1 + h * 0.07, fitted: true };
  }

  scales(width, height) {
    const { x0, x1, y0, y1 } = this.view;
    const left = LEFT + GUTTER;
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
    const scale = this.scales(width, height);
    this.scale = scale;
    this.size = { width, height };
    this.axes(ctx, scale, width, height);
    ctx.save();
    ctx.beginPath(); ctx.rect(scale.left, TOP, width - scale.left - RIGHT, height - TOP - BOTTOM); ctx.clip();
    this.density(ctx, scale);
    this.ideal(ctx, scale);
    this.panes(ctx, scale);
    this.watermark(ctx, scale);
    ctx.restore();
    ctx.save();
    ctx.beginPath(); ctx.rect(LEFT, TOP, GUTTER, height - TOP - BOTTOM); ctx.clip();
    this.marks(ctx, scale);
    ctx.restore();
  }

  axes(ctx, { x, y, left }, width, height) {
    const { x0, x1, y0, y1 } = this.view;
    ctx.lineWidth = 1;
    ctx.strokeStyle = css("grid");
    ctx.fillStyle = css("soft");
    const across = timeTicks(x0, x1, Math.max(2, Math.floor((width - left) / 105)));
    ctx.textAlign = "center"; ctx.textBaseline = "alphabetic";
    for (const at of across.ticks) {
      const px = Math.round(x(at)) + 0.5;
      ctx.beginPath(); ctx.moveTo(px, TOP); ctx.lineTo(px, height - BOTTOM); ctx.stroke();
      if (px > left + 24 && px < width - 40) ctx.fillText(tick(at, across.step), px, height - BOTTOM + 15);
    }
    const up = timeTicks(y0, y1, Math.max(2, Math.floor((height - BOTTOM) / 52)));
    ctx.textAlign = "right"; ctx.textBaseline = "middle";
    for (const at of up.ticks) {
      const py = Math.round(y(at)) + 0.5;
      ctx.beginPath(); ctx.moveTo(left, py); ctx.lineTo(width - RIGHT, py); ctx.stroke();
      ctx.fillText(tick(at, up.step), LEFT - 6, py);
    }
    ctx.strokeStyle = css("line");
    ctx.strokeRect(left + 0.5, TOP + 0.5, width - left - RIGHT - 1, height - TOP - BOTTOM - 1);
    ctx.textBaseline = "alphabetic"; ctx.textAlign = "center";
    ctx.fillText("event time (UTC) →", (left + width) / 2, height - 7);
    ctx.save();
    ctx.translate(12, (height - BOTTOM) / 2); ctx.rotate(-Math.PI / 2);
    ctx.fillText("processing time (UTC) →", 0, 0);
    ctx.restore();
  }

  density(ctx, { x, y }) {
    const { at, since, low, high, rows } = this.data.density;
    let most = 0;
    for (const bins of rows) for (const number of bins) most = Math.max(most, number);
    if (!most) return;
    const colour = css("density");
    at.forEach((time, i) => {
      const bins = rows[i], wide = (high[i] - low[i]) / bins.length;
      const below = i ? at[i - 1] : since[i];
      const top = y(time), tall = Math.min(Math.max(y(below) - top, 4), 40);
      bins.forEach((number, bin) => {
        if (!number) return;
        const from = x(low[i] + bin * wide), to = x(low[i] + (bin + 1) * wide);
        ctx.fillStyle = `rgba(${colour}, ${(0.08 + 0.4 * Math.sqrt(number / most)).toFixed(3)})`;
        ctx.fillRect(from, top, Math.max(to - from, 2), tall);
      });
    });
  }

  ideal(ctx, { x, y }) {
    const { x0, x1, y0, y1 } = this.view;
    const from = Math.max(x0, y0), to = Math.min(x1, y1);
    if (from >= to) return;
    ctx.strokeStyle = css("ideal");
    ctx.lineWidth = 1;
    ctx.setLineDash([4, 4]);
    ctx.beginPath(); ctx.moveTo(x(from), y(from)); ctx.lineTo(x(to), y(to)); ctx.stroke();
    ctx.setLineDash([]);
  }

  panes(ctx, { x, y }) {
    const { start, end, timing, diff, at } = this.data.panes;
    start.forEach((from, i) => {
      const left = x(from), wide = Math.max(x(end[i]) - left, 2);
      if (diff[i] < 0) {
        ctx.globalAlpha = 0.85;
        ctx.strokeStyle = css("retraction"); ctx.lineWidth = 1;
        ctx.strokeRect(left + 0.5, y(at[i]) + 2.5, Math.max(wide - 1, 1), 3);
      } else {
        ctx.globalAlpha = 0.85;
        ctx.fillStyle = css(COLOURS[timing[i]] ?? "soft");
        ctx.fillRect(left, y(at[i]) - 3, Math.max(wide - 1, 1), 4);
      }
    });
    ctx.globalAlpha = 1;
  }

  watermark(ctx, { x, y }) {
    const { at, since, watermark, watermark_low: low, batches } = this.data.points;
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

  marks(ctx, { y }) {
    const { at, late, dead } = this.data.points;
    ctx.lineWidth = 1.7;
    at.forEach((time, i) => {
      const py = y(time);
      if (late[i]) {
        const size = 3 + Math.min(3, Math.log10(late[i]));
        ctx.strokeStyle = css("late");
        ctx.beginPath();
        ctx.moveTo(LEFT + 8 - size, py - size); ctx.lineTo(LEFT + 8 + size, py + size);
        ctx.moveTo(LEFT + 8 + size, py - size); ctx.lineTo(LEFT + 8 - size, py + size);
        ctx.stroke();
      }
      if (dead[i]) {
        const size = 4 + Math.min(3, Math.log10(dead[i]));
        ctx.fillStyle = css("dead");
        ctx.beginPath();
        ctx.moveTo(LEFT + 21, py - size); ctx.lineTo(LEFT + 21 + size, py);
        ctx.lineTo(LEFT + 21, py + size); ctx.lineTo(LEFT + 21 - size, py); ctx.fill();
      }
    });
  }

  paneAt(px, py) {
    const { start, end, at } = this.data.panes;
    for (let i = at.length - 1; i >= 0; i -= 1) {
      if (Math.abs(this.scale.y(at[i]) - py) <= 5 && px >= this.scale.x(start[i]) && px <= this.scale.x(end[i])) return i;
    }
    return -1;
  }

  describe(px, py) {
    const pane = this.paneAt(px, py);
    const { panes, points } = this.data;
    if (pane >= 0) {
      const what = panes.diff[pane] < 0 ? "retraction" : `${NAMES[panes.timing[pane]] ?? panes.timing[pane]} pane`;
      return [`${what}, ${plural(panes.keys[pane], "key")}`, `window ${instant(panes.start[pane])}`,
        `to ${instant(panes.end[pane])}`, `emitted ${instant(panes.at[pane])} in batch ${panes.batch[pane]}`];
    }
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
    this.drag = { place: this.place(event), view: { ...this.view }, moved: false };
  }

  move(event) {
    if (!this.view || !this.scale) return;
    const [px, py] = this.place(event);
    if (!this.drag) { tip(this.describe(px, py), event.clientX, event.clientY); return; }
    const [startX, startY] = this.drag.place;
    if (Math.abs(px - startX) + Math.abs(py - startY) < 4 && !this.drag.moved) return;
    this.drag.moved = true;
    tip(null);
    const { view } = this.drag, { width, height } = this.size;
    const dx = ((startX - px) / (width - LEFT - GUTTER - RIGHT)) * (view.x1 - view.x0);
    const dy = ((py - startY) / (height - TOP - BOTTOM)) * (view.y1 - view.y0);
    this.view = { x0: view.x0 + dx, x1: view.x1 + dx, y0: view.y0 + dy, y1: view.y1 + dy };
    this.changed();
  }

  release(event) {
    const drag = this.drag;
    this.drag = null;
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

  /** Zooms by a factor around a point; without a point around the newest corner of the view. */
  zoom(factor, eventTime, time) {
    if (!this.view) return;
    const { x0, x1, y0, y1 } = this.view;
    const x = eventTime ?? x0 + (x1 - x0) * 0.75, y = time ?? y0 + (y1 - y0) * 0.85;
    const f = (y1 - y0) * factor < 1e4 ? 1 : factor;
    this.view = { x0: x - (x - x0) * f, x1: x + (x1 - x) * f, y0: y - (y - y0) * f, y1: y + (y1 - y) * f };
    this.changed();
  }

  key(event) {
    if (!this.view || event.ctrlKey || event.metaKey || event.altKey) return;
    const { x0, x1, y0, y1 } = this.view, w = (x1 - x0) / 8, h = (y1 - y0) / 8;
    const pan = { ArrowLeft: [-w, 0], ArrowRight: [w, 0], ArrowUp: [0, h], ArrowDown: [0, -h] }[event.key];
    if (pan) {
      this.view = { x0: x0 + pan[0], x1: x1 + pan[0], y0: y0 + pan[1], y1: y1 + pan[1] };
      this.changed();
    } else if (event.key === "+" || event.key === "=") this.zoom(0.7);
    else if (event.key === "-") this.zoom(1.4);
    else if (event.key === "0") this.onView("fit");
    else if (event.key === "f") this.onView("follow");
    else return;
    event.preventDefault();
  }

  changed() {
    this.draw();
    this.onView("moved");
  }
}

export function batchLabel(points, i) {
  return points.batches[i] > 1
    ? `batches ${points.first_batch[i]} to ${points.batch[i]}` : `batch ${points.batch[i]}`;
}
