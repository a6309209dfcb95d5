// Numbers, durations and instants as text. Instants are microseconds since the epoch, shown in UTC.

export const count = (number) => Math.round(number).toLocaleString("en");

export const plural = (number, noun, several = `${noun}s`) => `${count(number)} ${number === 1 ? noun : several}`;

export function short(number) {
  const size = Math.abs(number);
  for (const [unit, name] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= unit) return `${trim(number / unit)}${name}`;
  }
  return trim(number);
}

const trim = (number) => (Math.abs(number) >= 100 ? number.toFixed(0) : String(Number(number.toPrecision(3))));

export function bytes(number) {
  const size = Math.abs(number);
  for (const [unit, name] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (size >= unit) return `${trim(number / unit)} ${name}`;
  }
  return `${trim(number)} B`;
}

/** A duration with two units at most, in the words of the sentences that the server writes. */
export function duration(us) {
  if (us === null || us === undefined) return "unknown";
  const sign = us < 0 ? "-" : "";
  let rest = Math.abs(us) / 1e6;
  if (rest < 0.001) return "0 s";
  if (rest < 1) return `${sign}${Math.round(rest * 1000)} ms`;
  if (rest < 60) return `${sign}${rest.toFixed(1)} s`;
  rest = Math.floor(rest);
  const parts = [];
  for (const [unit, name] of [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]]) {
    const whole = Math.floor(rest / unit);
    if (whole) parts.push(`${whole}${name}`);
    rest -= whole * unit;
  }
  return sign + parts.slice(0, 2).join(" ");
}

const two = (number) => String(number).padStart(2, "0");

/** An instant with its date. */
export function instant(us) {
  if (us === null || us === undefined) return "unknown";
  const text = new Date(us / 1000).toISOString();
  return `${text.slice(0, 10)} ${text.slice(11, us % 1e6 ? 23 : 19)}`;
}

/** An instant on an axis whose ticks are `step` microseconds apart. */
export function tick(us, step) {
  const date = new Date(us / 1000);
  const day = `${two(date.getUTCMonth() + 1)}-${two(date.getUTCDate())}`;
  const time = `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}`;
  if (step >= 86400e6) return day;
  if (step >= 3600e6) return `${day} ${time}`;
  if (step >= 60e6) return time;
  const seconds = `${time}:${two(date.getUTCSeconds())}`;
  return step >= 1e6 ? seconds : `${seconds}.${String(date.getUTCMilliseconds()).padStart(3, "0")}`;
}

const STEPS = [1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 10e6, 15e6, 30e6, 60e6, 120e6, 300e6, 600e6,
  900e6, 1800e6, 3600e6, 7200e6, 3 * 3600e6, 6 * 3600e6, 12 * 3600e6, 86400e6, 2 * 86400e6, 7 * 86400e6, 30 * 86400e6,
  90 * 86400e6, 365 * 86400e6, 3650 * 86400e6];

/** The ticks of a time axis: about `wanted` of them. */
export function timeTicks(low, high, wanted) {
  const step = STEPS.find((size) => (high - low) / size <= wanted) ?? STEPS.at(-1);
  const ticks = [];
  for (let at = Math.ceil(low / step) * step; at <= high && ticks.length < 60; at += step) ticks.push(at);
  return { step, ticks };
}

/** The ticks of an axis of numbers from 0. Bytes have round numbers of KiB or MiB. */
export function numberTicks(high, wanted, inBytes = false) {
  if (!(high > 0)) return [0];
  const unit = inBytes ? 1024 ** Math.floor(Math.log(Math.max(high, 1)) / Math.log(1024)) : 1;
  if (unit > 1) return numberTicks(high / unit, wanted).map((value) => value * unit);
  const raw = high / wanted, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= raw);
  const ticks = [];
  for (let value = 0; value <= high * 1.0001; value += step) ticks.push(value);
  return ticks;
}

export function batchLabel(points, i) {
  return points.batches[i] > 1
    ? `batches ${points.first_batch[i]} to ${points.batch[i]}` : `batch ${points.batch[i]}`;
}
