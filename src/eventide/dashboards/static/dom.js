// Elements are made of text, never of markup: names of origins and messages come from data.

export const byId = (id) => document.getElementById(id);

export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name === "class") node.className = value;
    else if (name === "onclick") node.addEventListener("click", value);
    else node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function fill(node, ...children) {
  node.replaceChildren(...children);
}

export function setText(id, text) {
  const node = byId(id);
  if (node.textContent !== text) node.textContent = text;
}

const SVG = "http://www.w3.org/2000/svg";

/** A legend: pairs of a name and a CSS colour; a third entry chooses the shape. */
export function legend(id, entries) {
  fill(byId(id), ...entries.map(([name, colour, shape = "box"]) => {
    const picture = document.createElementNS(SVG, "svg");
    picture.setAttribute("viewBox", "0 0 16 12");
    picture.setAttribute("aria-hidden", "true");
    const mark = document.createElementNS(SVG, "path");
    const paths = { box: "M1 1h14v10H1z", line: "M0 6h16", dash: "M0 6h5M8 6h5", cross: "M4 2l8 8M12 2l-8 8",
      diamond: "M8 1l5 5-5 5-5-5z", hollow: "M2 2h12v8H2z" };
    mark.setAttribute("d", paths[shape]);
    const filled = shape === "box" || shape === "diamond";
    mark.setAttribute("fill", filled ? colour : "none");
    mark.setAttribute("stroke", filled ? "none" : colour);
    mark.setAttribute("stroke-width", shape === "line" ? "2.5" : "1.6");
    picture.append(mark);
    return el("li", {}, picture, name);
  }));
}

export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** Shows lines of text next to the pointer. */
export function tip(lines, x, y) {
  const node = byId("tip");
  node.hidden = lines === null;
  if (lines === null) return;
  fill(node, ...lines.map((line) => el("div", {}, line)));
  const { width, height } = node.getBoundingClientRect();
  node.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 6))}px`;
  node.style.top = `${y + 16 + height > innerHeight ? Math.max(4, y - height - 10) : y + 16}px`;
}

/** A canvas in device pixels; returns its context, scaled to CSS pixels, and its size. */
export function prepare(canvas) {
  const box = canvas.getBoundingClientRect();
  const ratio = devicePixelRatio || 1;
  const width = Math.round(box.width * ratio), height = Math.round(box.height * ratio);
  if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, box.width, box.height);
  context.font = "12px system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";
  return { context, width: box.width, height: box.height };
}
