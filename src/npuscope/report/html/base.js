// Elements, numbers and the epoch that all views share. Foreign names are only ever text nodes.
// A live view draws the same page again with other data.
let data = JSON.parse(document.getElementById("data").textContent);
const root = document.getElementById("report");
const SVG = "http://www.w3.org/2000/svg";

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

const el = (tag, attributes, ...children) =>
  filled(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
  filled(document.createElementNS(SVG, tag), attributes, children);

function section(id, title, caption, ...children) {
  const head = el("header", {}, el("h2", {}, title));
  if (caption) head.append(el("p", { class: "caption" }, caption));
  return el("section", { id }, head, ...children);
}

// Where a number comes from, beside it.
const chip = (text, title) => el("span", title ? { class: "chip", title } : { class: "chip" }, text);
// The error of a prediction is in the page's first line; here it shows under the pointer.
const sourceChip = () => (data.source ? chip(data.source, data.sure) : chip(data.sure));

// Texts in pictures are measured in the font that this browser draws them with: `size` in pixels,
// `bold` as in the style sheet.
const SMALL = 11; // pixels, the letters of pictures
const pen = document.createElement("canvas").getContext("2d");
const textFont = getComputedStyle(document.body).fontFamily;
let penFont = "";
function measured(text, size = SMALL, bold = false) {
  const font = `${bold ? 600 : 400} ${size}px ${textFont}`;
  if (font !== penFont) penFont = pen.font = font;
  return pen.measureText(text);
}
const textWidth = (text, size, bold) => measured(text, size, bold).width;

// As many parts of a text as there is room for, the first in any case.
function fitting(parts, room) {
  let text = parts[0];
  for (const part of parts.slice(1)) {
    if (textWidth(text + part) > room) break;
    text += part;
  }
  return text;
}

// A text that is at most `room` pixels wide; of a longer one the middle goes.
function fitted(text, room, size, bold) {
  if (textWidth(text, size, bold) <= room) return text;
  let [least, most] = [1, text.length];
  while (least < most) {
    const letters = Math.ceil((least + most) / 2);
    if (textWidth(cut(text, letters), size, bold) <= room) least = letters;
    else most = letters - 1;
  }
  return cut(text, least);
}

const ms = (value) =>
  value >= 100 ? value.toFixed(1) : value >= 10 ? value.toFixed(2) : value.toFixed(3);
const whole = (value) => Math.round(value).toLocaleString("en-US");
const percent = (part, all) => (all ? `${((100 * part) / all).toFixed(1)} %` : "-");

function bytes(value) {
  if (value < 1024) return `${Math.round(value)} B`;
  return value < 1048576
    ? `${(value / 1024).toFixed(1)} KiB`
    : `${(value / 1048576).toFixed(2)} MiB`;
}

function si(value, unit) {
  const steps = [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ];
  const [size, letter] = steps.find(([least]) => value >= least) || [1, ""];
  return `${(value / size).toPrecision(3)} ${letter}${unit}`;
}

// At most so many characters; of a longer text the middle goes.
function cut(text, most) {
  const half = Math.max(1, Math.floor((most - 1) / 2));
  return text.length <= most ? text : `${text.slice(0, half)}…${text.slice(-half)}`;
}

// "Conv, Add x2" of ["Conv", "Add", "Add"].
function counted(names) {
  const counts = new Map();
  for (const name of names) counts.set(name, (counts.get(name) || 0) + 1);
  return [...counts].map(([name, n]) => (n > 1 ? `${name} x${n}` : name)).join(", ");
}

let epochs = data.epochs || [];
const label = (epoch) =>
  epoch.first === epoch.last ? `${epoch.first}` : `${epoch.first}-${epoch.last}`;
const kindClass = (epoch) => `kind-${epoch.kind.toLowerCase()}`;
const indexOfNumber = (number) =>
  epochs.findIndex((epoch) => epoch.first <= number && number <= epoch.last);

// The top of every page: what it is about, the answer, and chip, board and compiler.
const head = (...said) =>
  el(
    "header",
    { class: "top" },
    el("p", { class: "brand" }, `npuscope ${data.version}`),
    el("h1", {}, data.title),
    el("p", { class: "answer" }, data.answer),
    data.machine ? el("p", { class: "said" }, data.machine) : null,
    said.filter((line) => line).map((line) => el("p", { class: "said" }, line)),
  );

// The chosen epoch. A view hears of it with the name of the view it was chosen in.
const chosen = { index: null, listeners: [] };

function choose(index, origin) {
  chosen.index = index === chosen.index && origin !== "finding" ? null : index;
  document.body.dataset.chosen = chosen.index === null ? "" : String(chosen.index);
  for (const listener of chosen.listeners) listener(chosen.index, origin);
}

const onChoice = (listener) => chosen.listeners.push(listener);

// One tooltip for all plots.
const tip = el("div", { id: "tip", role: "tooltip", hidden: "" });
document.body.append(tip);

function showTip(event, lines) {
  tip.replaceChildren(...lines.map((line, n) => el("div", n ? {} : { class: "tip-title" }, line)));
  tip.hidden = false;
  const room = document.documentElement.clientWidth - tip.offsetWidth - 16;
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, room))}px`;
  const below = event.clientY + 18;
  const high = below + tip.offsetHeight > window.innerHeight;
  tip.style.top = `${high ? event.clientY - tip.offsetHeight - 10 : below}px`;
}

const hideTip = () => {
  tip.hidden = true;
};

function epochLines(index) {
  const epoch = epochs[index];
  return [
    `epoch ${label(epoch)} · ${epoch.kind} · ${ms(epoch.ms)} ms (${percent(epoch.ms, data.total_ms)})`,
    counted(epoch.ops) || "no operators known",
    epoch.origin.length ? `from ${epoch.origin.join(", ")}` : null,
    epoch.bound === "unknown" ? null : `bound by ${epoch.bound}`,
    epoch.source,
  ].filter((line) => line);
}
