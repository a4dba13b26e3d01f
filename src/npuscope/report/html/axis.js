// The x axis that timeline, memory map and series share: milliseconds, or one step per epoch.
const GUTTER = 118;
const RIGHT = 14;
const axis = { mode: "time", from: 0, to: 1, views: [] };
let starts = [];
let totalTime = 1;
let longest = 0;

// All that the axis takes from the epochs.
function measureEpochs() {
  let clock = 0;
  starts = epochs.map((epoch) => {
    const start = clock;
    clock += epoch.phases[0] + epoch.phases[1] + epoch.phases[2];
    return start;
  });
  totalTime = clock || 1;
  longest = Math.max(0, ...epochs.map((epoch) => epoch.ms));
}

// A few long epochs hide all others on a time axis; then every epoch gets the same room.
const usualMode = () => (epochs.length > 20 && longest > 0.25 * totalTime ? "epoch" : "time");

measureEpochs();
axis.mode = usualMode();

const span = () => (axis.mode === "time" ? totalTime : epochs.length || 1);
const leftOf = (i) => (axis.mode === "time" ? starts[i] : i);
const rightOf = (i) =>
  axis.mode === "time" ? (i + 1 < starts.length ? starts[i + 1] : totalTime) : i + 1;

// [left, right] of a phase (0 pre, 1 core, 2 post) in units of the axis.
function phaseSpan(i, phase) {
  const parts = epochs[i].phases;
  const all = parts[0] + parts[1] + parts[2];
  const before = phase === 0 ? 0 : phase === 1 ? parts[0] : parts[0] + parts[1];
  const unit = axis.mode === "time" || !all ? 1 : 1 / all;
  return [leftOf(i) + before * unit, leftOf(i) + (before + parts[phase]) * unit];
}

// The width to draw for. What was drawn is scaled as a whole where paper is narrower.
function drawnWidth(plot) {
  // A browser may lay out a page in no room at all before it knows its size.
  const width = Math.max(GUTTER + RIGHT + 50, widthOf(plot));
  plot.setAttribute("viewBox", `0 0 ${width} ${plot.getAttribute("height")}`);
  return width;
}

const plotWidth = (width) => Math.max(50, width - GUTTER - RIGHT);
const toX = (value, width) =>
  GUTTER + ((value / span() - axis.from) / (axis.to - axis.from)) * plotWidth(width);
const fromX = (x, width) =>
  (((x - GUTTER) / plotWidth(width)) * (axis.to - axis.from) + axis.from) * span();

function epochAt(value) {
  if (value < 0 || value > span()) return null;
  let low = 0;
  let high = epochs.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (leftOf(middle) <= value) low = middle;
    else high = middle - 1;
  }
  return epochs.length ? low : null;
}

function visibleRange() {
  const first = epochAt(Math.max(0, axis.from * span())) || 0;
  const last = epochAt(Math.min(span(), axis.to * span()));
  return [first, last === null ? epochs.length - 1 : last];
}

// All widths are read before anything is drawn: each reading after a change lays out the page again.
const widths = new Map();
const widthOf = (node) => widths.get(node) ?? node.clientWidth;

function redraw() {
  for (const node of root.querySelectorAll(".plot, .series, .scroller"))
    widths.set(node, node.clientWidth);
  for (const view of axis.views) view();
  widths.clear();
}

function zoom(from, to) {
  const least = Math.min(1, 0.5 / Math.max(1, epochs.length));
  const width = Math.min(1, Math.max(least, to - from));
  axis.from = Math.min(1 - width, Math.max(0, from));
  axis.to = axis.from + width;
  redraw();
}

function zoomAround(centre, factor) {
  const width = (axis.to - axis.from) * factor;
  const place = (centre - axis.from) / (axis.to - axis.from);
  zoom(centre - place * width, centre + (1 - place) * width);
}

function setMode(mode) {
  axis.mode = mode;
  axis.from = 0;
  axis.to = 1;
  for (const button of document.querySelectorAll("[data-mode]"))
    button.setAttribute("aria-pressed", String(button.dataset.mode === mode));
  redraw();
}

function zoomBar() {
  const middle = () => (axis.from + axis.to) / 2;
  const mode = (name, text) =>
    el(
      "button",
      {
        type: "button",
        "data-mode": name,
        "aria-pressed": String(axis.mode === name),
        onclick: () => setMode(name),
      },
      text,
    );
  const act = (text, title, onclick) => el("button", { type: "button", title, onclick }, text);
  return el(
    "div",
    { class: "bar" },
    el(
      "span",
      { class: "group", role: "group", "aria-label": "x axis" },
      mode("time", "by time"),
      mode("epoch", "by epoch"),
    ),
    el(
      "span",
      { class: "group", role: "group", "aria-label": "zoom" },
      act("+", "closer", () => zoomAround(middle(), 0.5)),
      act("−", "wider", () => zoomAround(middle(), 2)),
      act("←", "earlier", () => shift(-0.5)),
      act("→", "later", () => shift(0.5)),
      act("all", "the whole inference", () => zoom(0, 1)),
    ),
    el(
      "span",
      { class: "hint" },
      "drag to zoom, double click for all, click an epoch to follow it everywhere",
    ),
  );
}

function shift(share) {
  const step = (axis.to - axis.from) * share;
  zoom(axis.from + step, axis.to + step);
}

// Steps of 1, 2 or 5 that leave about `most` ticks.
function ticks(low, high, most) {
  const raw = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((n) => n * power).find((size) => size >= raw);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) found.push(at);
  return found;
}

function tickText(value) {
  if (axis.mode === "time") return `${Number(value.toPrecision(5))} ms`;
  const index = Math.round(value);
  return index < epochs.length ? `${epochs[index].first}` : "";
}

function axisMarks(width, height) {
  const shown = ticks(axis.from * span(), axis.to * span(), Math.max(2, width / 110));
  const kept = axis.mode === "time" ? shown : shown.filter((value) => Number.isInteger(value));
  return kept.map((value) =>
    svg(
      "g",
      { class: "tick" },
      svg("line", { x1: toX(value, width), x2: toX(value, width), y1: 0, y2: height }),
      svg(
        "text",
        { x: toX(value, width), y: height + 13, "text-anchor": "middle" },
        tickText(value),
      ),
    ),
  );
}

// Hover, click, drag and wheel on a plot with the shared axis. `lines(index, event)` is its tip.
function interactive(plot, origin, lines) {
  let pressed = null;
  const band = svg("rect", { class: "band", y: 0, height: "100%", visibility: "hidden" });
  const place = (event) => event.clientX - plot.getBoundingClientRect().left;
  const value = (event) => fromX(place(event), plot.clientWidth);
  plot.addEventListener("pointermove", (event) => {
    if (pressed !== null && Math.abs(place(event) - pressed) > 4) {
      band.setAttribute("x", Math.min(pressed, place(event)));
      band.setAttribute("width", Math.abs(place(event) - pressed));
      band.setAttribute("visibility", "visible");
      plot.append(band);
      hideTip();
      return;
    }
    const index = place(event) < GUTTER ? null : epochAt(value(event));
    if (index === null) hideTip();
    else showTip(event, lines(index, event));
  });
  plot.addEventListener("pointerleave", hideTip);
  plot.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || place(event) < GUTTER) return;
    pressed = place(event);
    // A drag may end outside of the plot.
    plot.setPointerCapture(event.pointerId);
  });
  plot.addEventListener("pointerup", (event) => {
    if (pressed === null) return;
    const ends = [pressed, place(event)].sort((a, b) => a - b);
    pressed = null;
    band.setAttribute("visibility", "hidden");
    if (ends[1] - ends[0] > 4) {
      zoom(fromX(ends[0], plot.clientWidth) / span(), fromX(ends[1], plot.clientWidth) / span());
    } else {
      const index = epochAt(fromX(ends[0], plot.clientWidth));
      if (index !== null) choose(index, origin);
    }
  });
  plot.addEventListener("dblclick", () => zoom(0, 1));
  plot.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey) return; // a plain wheel scrolls the page
      event.preventDefault();
      zoomAround(value(event) / span(), event.deltaY > 0 ? 1.25 : 0.8);
    },
    { passive: false },
  );
}

// The chosen epoch as a column over a plot.
function choiceMark(width, height) {
  if (chosen.index === null) return null;
  const left = toX(leftOf(chosen.index), width);
  const right = toX(rightOf(chosen.index), width);
  const x = Math.max(GUTTER, left);
  const end = Math.min(width - RIGHT, right);
  if (end < x) return null;
  return svg("rect", { class: "choice", x, y: 0, width: Math.max(1.5, end - x), height });
}
