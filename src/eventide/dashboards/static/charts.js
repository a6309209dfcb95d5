// Small charts over processing time: stacked bars, or lines.

import { css, prepare, tip } from "./dom.js";
import { bytes, instant, numberTicks, tick, timeTicks } from "./format.js";

const LEFT = 62, BOTTOM = 22, TOP = 8, RIGHT = 8;

export class TimeChart {
  /** `series`: name, colour (a CSS variable) and values; `format` of a value. */
  constructor(canvas, { kind = "bars", format }) {
    this.canvas = canvas;
    this.kind = kind;
    this.format = format;
    this.at = [];
    canvas.addEventListener("pointermove", (event) => this.hover(event));
    canvas.addEventListener("pointerleave", () => tip(null));
  }

  set(at, since, series, labels) {
    Object.assign(this, { at, since, series: series.filter((entry) => entry.values.length), labels });
    this.draw();
  }

  draw() {
    const { context: ctx, width, height } = prepare(this.canvas);
    if (!this.at.length || width < 80) return;
    const stacked = this.kind === "bars";
    const totals = this.at.map((_, i) => stacked
      ? this.series.reduce((sum, entry) => sum + (entry.values[i] ?? 0), 0)
      : Math.max(...this.series.map((entry) => entry.values[i] ?? 0)));
    const high = Math.max(...totals, 0) || 1;
    const low = stacked ? 0 : Math.min(0, ...this.series.flatMap((entry) => entry.values.filter((v) => v !== null)));
    let from = this.since[0], to = this.at.at(-1);
    if (to - from < 1e6) { from -= 5e5; to += 5e5; }
    const x = (at) => LEFT + ((at - from) / (to - from)) * (width - LEFT - RIGHT);
    const y = (value) => height - BOTTOM - ((value - low) / (high - low)) * (height - TOP - BOTTOM);
    Object.assign(this, { x });
    ctx.fillStyle = css("soft");
    ctx.strokeStyle = css("grid");
    ctx.lineWidth = 1;
    ctx.textBaseline = "middle";
    ctx.textAlign = "right";
    for (const value of numberTicks(high, 3, this.format === bytes)) {
      const at = Math.round(y(value)) + 0.5;
      ctx.beginPath(); ctx.moveTo(LEFT, at); ctx.lineTo(width - RIGHT, at); ctx.stroke();
      ctx.fillText(this.format(value), LEFT - 7, at);
    }
    ctx.textBaseline = "alphabetic";
    const { step, ticks } = timeTicks(from, to, Math.max(2, Math.floor((width - LEFT) / 105)));
    for (const at of ticks) {
      ctx.textAlign = x(at) > width - 34 ? "right" : x(at) < LEFT + 30 ? "left" : "center";
      ctx.fillText(tick(at, step), Math.min(x(at), width - RIGHT), height - 6);
    }
    if (stacked) this.bars(ctx, x, y, width); else this.lines(ctx, x, y);
  }

  bars(ctx, x, y, width) {
    const slot = (width - LEFT - RIGHT) / Math.max(this.at.length, 1);
    const thick = Math.max(1, Math.min(14, slot - (slot > 4 ? 1 : 0)));
    const base = this.at.map(() => 0);
    for (const { colour, values } of this.series) {
      ctx.fillStyle = css(colour);
      values.forEach((value, i) => {
        if (!value) return;
        const top = y(base[i] + value), bottom = y(base[i]);
        const left = Math.min(Math.max(x(this.at[i]) - thick / 2, LEFT), width - RIGHT - thick);
        ctx.fillRect(left, Math.min(top, bottom - 1), thick, Math.max(bottom - top, 1));
        base[i] += value;
      });
    }
  }

  lines(ctx, x, y) {
    for (const { colour, values } of this.series) {
      ctx.strokeStyle = css(colour);
      ctx.lineWidth = 1.8;
      ctx.beginPath();
      let drawing = false;
      values.forEach((value, i) => {
        if (value === null) { drawing = false; return; }
        if (drawing) ctx.lineTo(x(this.at[i]), y(value)); else ctx.moveTo(x(this.at[i]), y(value));
        drawing = true;
      });
      ctx.stroke();
      if (values.length === 1) ctx.strokeRect(x(this.at[0]) - 1, y(values[0]) - 1, 2, 2);
    }
  }

  hover(event) {
    if (!this.at.length || !this.x) return;
    const place = event.clientX - this.canvas.getBoundingClientRect().left;
    let best = 0;
    this.at.forEach((at, i) => { if (Math.abs(this.x(at) - place) < Math.abs(this.x(this.at[best]) - place)) best = i; });
    const values = this.series.map(({ name, values }) =>
      `${name}: ${values[best] === null ? "unknown" : this.format(values[best])}`);
    tip([this.labels[best], instant(this.at[best]), ...values], event.clientX, event.clientY);
  }
}
