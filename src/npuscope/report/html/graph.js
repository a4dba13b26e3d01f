// Epochs from top to bottom, with a line from each to those that read what it made. Modules hold
// modules, open and close; a search leads from hit to hit, and the height of a row is the zoom.
const LANE = 11;
const ROW_HEIGHTS = [4, 7, 11, 16, 22];
const SMALLEST_TEXT = 11; // height of a row
const INDENT = 14;
// Modules that the reader opened or closed, by key: they stay so when the page is drawn again.
const turned = new Map();

function drawGraph() {
  if (!data.edges || !data.edges.length) return;
  const modules = modulesOf();
  const open = openAtFirst(modules);
  const view = {
    modules,
    open: new Set(everyModule(modules).filter((one) => turned.get(one.key) ?? open.has(one))),
    zoom: 4,
    words: "",
    hit: -1,
    plot: svg("svg", { id: "graph-plot", role: "group", "aria-label": "graph of epochs" }),
  };
  view.box = el("div", { class: "scroller", tabindex: 0 }, view.plot);
  const caption = modules.length
    ? "From top to bottom. A line leads from the epoch that makes a buffer to those that read it; a module opens and closes with a click, or with the arrow keys."
    : "From top to bottom. A line leads from the epoch that makes a buffer to those that read it.";
  root.append(
    section("graph", "Graph of epochs", caption, graphBar(view), view.box, kindLegend(), chip("from the program")),
  );
  axis.views.push(() => drawRows(view));
  onChoice((index, origin) => {
    if (index !== null && origin !== "graph") revealRow(view, index);
    markChoice(view);
  });
}

// --- The bar: search, modules, zoom ---

function graphBar(view) {
  const act = (text, title, onclick) =>
    el("button", { type: "button", title, onclick }, text);
  const told = el("output", { class: "hint", id: "graph-hits" });
  const search = el("input", {
    type: "search",
    id: "graph-search",
    placeholder: "search: op, layer, epoch, regex …",
    "aria-label": "search the graph",
    oninput: () => {
      view.words = search.value.trim().toLowerCase();
      view.hit = -1;
      nextHit(view, 1, told);
    },
    onkeydown: (event) => {
      if (event.key === "Enter") nextHit(view, event.shiftKey ? -1 : 1, told);
    },
  });
  const zoomed = (step) => {
    view.zoom = Math.max(0, Math.min(ROW_HEIGHTS.length - 1, view.zoom + step));
    drawRows(view);
  };
  const turnAll = (open) => {
    const every = everyModule(view.modules);
    for (const module of every) turned.set(module.key, open);
    view.open = new Set(open ? every : []);
    drawRows(view);
  };
  return el(
    "div",
    { class: "bar" },
    search,
    el(
      "span",
      { class: "group", role: "group", "aria-label": "hits" },
      act("↑", "previous hit", () => nextHit(view, -1, told)),
      act("↓", "next hit", () => nextHit(view, 1, told)),
    ),
    told,
    view.modules.length
      ? el(
          "span",
          { class: "group", role: "group", "aria-label": "modules" },
          act("open all", "every epoch", () => turnAll(true)),
          act("close all", "modules only", () => turnAll(false)),
        )
      : null,
    el(
      "span",
      { class: "group", role: "group", "aria-label": "zoom of the graph" },
      act("+", "larger rows", () => zoomed(1)),
      act("−", "smaller rows", () => zoomed(-1)),
      act("fit", "as much as fits", () => {
        const fits = ROW_HEIGHTS.findLastIndex((high) => high * view.rows.length <= 540);
        view.zoom = Math.max(0, fits);
        drawRows(view);
      }),
    ),
  );
}

function hitsOf(view) {
  if (!view.words) return [];
  const tests = view.words.split(/\s+/).map(wordTest);
  return epochs
    .map((epoch, index) => index)
    .filter((index) => {
      const text = `${searchText(epochs[index])} ${(data.modules[index] || []).join("/").toLowerCase()}`;
      return tests.every((test) => test(text));
    });
}

// A word is a regular expression; one that is none, such as "(1", is looked for as it stands.
function wordTest(word) {
  try {
    const form = new RegExp(word, "i");
    return (text) => form.test(text);
  } catch {
    return (text) => text.includes(word);
  }
}

function nextHit(view, step, told) {
  const hits = hitsOf(view);
  view.hits = new Set(hits);
  if (hits.length) {
    view.hit = (view.hit + step + hits.length) % hits.length;
    told.textContent = `${view.hit + 1} of ${hits.length}`;
    openAround(view, hits[view.hit]);
  } else {
    told.textContent = view.words ? "nothing found" : "";
  }
  drawRows(view);
  if (hits.length) scrollToEpoch(view, hits[view.hit]);
}

// --- Rows ---

function openAround(view, index) {
  for (const module of everyModule(view.modules)) if (holds(module, index)) view.open.add(module);
}

function revealRow(view, index) {
  const before = view.open.size;
  openAround(view, index);
  if (view.open.size !== before) drawRows(view);
  scrollToEpoch(view, index);
}

function scrollToEpoch(view, index) {
  const row = view.rows.findIndex((one) => one.index === index);
  if (row < 0) return;
  const high = ROW_HEIGHTS[view.zoom];
  view.box.scrollTop = row * high - (view.box.clientHeight - high) / 2;
}

const laneX = (lane) => 8 + lane * LANE;

function drawRows(view) {
  const high = ROW_HEIGHTS[view.zoom];
  view.rows = rowsOf(view.modules, view.open);
  const edges = rowEdges(view.rows);
  const lanes = lanesOf(view.rows, edges);
  const wide = Math.max(320, widthOf(view.box) - 2);
  const left = laneX(Math.max(0, ...lanes.filter((lane) => lane !== null)) + 1) + 4;
  const size = { width: wide, height: view.rows.length * high + 4 };
  for (const [name, value] of Object.entries(size)) view.plot.setAttribute(name, value);
  view.plot.setAttribute("viewBox", `0 0 ${size.width} ${size.height}`);
  const most = Math.max(0, ...view.rows.filter((row) => !row.head || row.closed).map(spentIn));
  const middle = (row) => row * high + high / 2 + 2;
  view.plot.replaceChildren(
    ...view.rows.map((row, n) => graphRow(view, row, n, { high, wide, left, most, y: n * high + 2 })),
    ...edges.map(([from, to]) => graphEdge(lanes[from], lanes[to], middle(from), middle(to), high, [from, to])),
    ...view.rows.flatMap((row, n) => (lanes[n] === null ? [] : [graphDot(row, laneX(lanes[n]), middle(n), high)])),
  );
  markChoice(view);
}

// Down the lane of the producer, then over to the reader.
function graphEdge(from, to, y1, y2, high, [a, b]) {
  const [x1, x2] = [laneX(from), laneX(to)];
  const bend = Math.min(high, 12);
  const d =
    x1 === x2
      ? `M${x1} ${y1}V${y2}`
      : `M${x1} ${y1}V${y2 - bend}C${x1} ${y2} ${x2} ${y2 - bend} ${x2} ${y2}`;
  return svg("path", { class: "edge", d, "data-from": a, "data-to": b });
}

const rowEpochs = (row) =>
  row.head ? epochs.slice(row.module.first, row.module.last + 1) : [epochs[row.index]];

const spentIn = (row) => rowEpochs(row).reduce((sum, epoch) => sum + epoch.ms, 0);

// A module has the colour of what takes most of its time.
function rowKind(row) {
  const times = new Map();
  for (const epoch of rowEpochs(row)) times.set(epoch.kind, (times.get(epoch.kind) || 0) + epoch.ms);
  return [...times].sort((a, b) => b[1] - a[1])[0][0].toLowerCase();
}

function graphDot(row, cx, cy, high) {
  const r = Math.min(high / 2 - 0.5, row.head ? 5 : 3.6);
  const shape = { class: `node-dot kind-${rowKind(row)}`, cx, cy, r: Math.max(1.2, r) };
  return svg("circle", shape);
}

function graphRow(view, row, n, place) {
  const { high, wide, y } = place;
  const inside = rowEpochs(row);
  const spent = spentIn(row);
  const hit = inside.some((_, k) => view.hits?.has((row.head ? row.module.first : row.index) + k));
  const dim = view.words && !hit ? " node-dim" : "";
  const name = row.head ? "module" : "node";
  const act = () => (row.head ? turn(view, row.module) : choose(row.index, "graph"));
  return svg(
    "g",
    {
      class: `${name} kind-${rowKind(row)}${hit ? " node-hit" : ""}${dim}`,
      tabindex: n === 0 ? 0 : -1, // the arrow keys lead on from there
      role: "button",
      "aria-expanded": row.head ? String(!row.closed) : null,
      "data-index": row.head ? null : row.index,
      "data-row": n,
      "aria-label": row.head ? row.module.path : `epoch ${label(epochs[row.index])}`,
      onclick: act,
      onkeydown: (event) => {
        const press = { Enter: act, " ": act, ...rowKeys(view, row, n) }[event.key];
        if (!press) return;
        event.preventDefault();
        press();
      },
      onpointermove: (event) =>
        showTip(event, row.head ? moduleLines(row.module, spent) : epochLines(row.index)),
      onpointerleave: hideTip,
    },
    svg("rect", { class: "node-box", x: 0, y, width: wide, height: high }),
    ...(high >= SMALLEST_TEXT ? rowTexts(view, row, spent, place) : [rowBar(row, spent, place)]),
  );
}

const LEAST_NAME = 60; // pixels, below which a name cannot be read

const barRoom = (wide) => Math.min(220, wide * (wide < 500 ? 0.1 : 0.2));

// One scale for all rows that are shown; the line of an open module would hide the others.
function rowBar(row, spent, { high, wide, y, most }) {
  const room = barRoom(wide);
  const share = spent / (most || 1);
  return svg("rect", {
    class: `node-time kind-${rowKind(row)}`,
    x: wide - room,
    y: y + high * 0.22,
    width: Math.max(0.5, Math.min(1, share) * (room - 4)),
    height: Math.max(1, high * 0.56),
  });
}

function rowTexts(view, row, spent, place) {
  const { high, wide, left, y } = place;
  const base = y + high / 2 + 4;
  const size = high < 14 ? "node-small" : "";
  const letters = high < 14 ? 9.5 : SMALL; // pixels, as in the style sheet
  const depth = row.head ? row.module.depth : row.module ? row.module.depth + 1 : 0;
  const number = left + Math.min(depth, 8) * INDENT;
  const room = wide - barRoom(wide) - 78 - number - 62;
  const time = svg(
    "text",
    { class: `node-ms ${size}`, x: wide - barRoom(wide) - 8, y: base, "text-anchor": "end" },
    `${ms(spent)} ms`,
  );
  if (row.head) {
    const mark = row.closed ? "▸" : "▾";
    const count = row.module.last - row.module.first + 1;
    const tail = count === 1 ? "1 epoch" : `${count} epochs`;
    const title = (share) => {
      const text = fitted(row.module.name, Math.max(LEAST_NAME, room * share), letters, true);
      return svg("text", { class: `module-name ${size}`, x: number, y: base }, `${mark} ${text}`);
    };
    // On a phone the name alone; what the epochs compute is in the tip.
    if (room * 0.55 < 2 * LEAST_NAME) return [title(1.4), time, rowBar(row, spent, place)];
    const ops = counted(rowEpochs(row).flatMap((epoch) => epoch.ops));
    const told = fitted(`${tail}: ${ops}`, Math.max(LEAST_NAME, room * 0.5), letters);
    return [
      title(0.48),
      svg("text", { class: `node-ops ${size}`, x: number + 64 + room * 0.44, y: base }, told),
      time,
      rowBar(row, spent, place),
    ];
  }
  const epoch = epochs[row.index];
  const names = [counted(epoch.ops) || epoch.kind, epoch.origin.join(", ")];
  return [
    svg("text", { class: `node-number ${size}`, x: number, y: base }, label(epoch)),
    ...twoTexts(names, { size, letters, x: number + 50, y: base, room }),
    time,
    rowBar(row, spent, place),
  ];
}

// Next to each other; on a phone, where neither could be read, the second alone.
function twoTexts(names, { size, letters, x, y, room }) {
  const classes = ["node-name", "node-ops"];
  const text = (n, left, share) =>
    svg(
      "text",
      { class: `${classes[n]} ${size}`, x: left, y },
      fitted(names[n], Math.max(LEAST_NAME / 2, room * share), letters),
    );
  if (room * 0.42 < LEAST_NAME) return [text(names[1] ? 1 : 0, x, 1)];
  return [text(0, x, 0.42), text(1, x + room * 0.44, 0.55)];
}

const moduleLines = (module, spent) => [
  module.path,
  `${rangeName(module)}: ${ms(spent)} ms (${percent(spent, data.total_ms)})`,
  counted(epochs.slice(module.first, module.last + 1).flatMap((epoch) => epoch.ops)),
];

function turn(view, module) {
  const open = !view.open.has(module);
  turned.set(module.key, open);
  if (open) view.open.add(module);
  else view.open.delete(module);
  drawRows(view);
  focusRow(view, view.rows.findIndex((row) => row.head && row.module === module));
}

// As in a tree: up and down, right opens, left closes or leads to the module around.
function rowKeys(view, row, n) {
  const around = view.rows.findLastIndex(
    (one, k) => k < n && one.head && !one.closed && contains(one.module, row),
  );
  return {
    ArrowDown: () => focusRow(view, n + 1),
    ArrowUp: () => focusRow(view, n - 1),
    ArrowRight: () => (row.closed ? turn(view, row.module) : focusRow(view, n + 1)),
    ArrowLeft: () => (row.head && !row.closed ? turn(view, row.module) : focusRow(view, around)),
  };
}

const contains = (module, row) =>
  row.head ? module !== row.module && holds(module, row.module.first) : holds(module, row.index);

const focusRow = (view, n) => view.plot.querySelector(`[data-row="${n}"]`)?.focus();

function markChoice(view) {
  const row = view.rows.findIndex((one) => one.index === chosen.index);
  for (const group of view.plot.querySelectorAll(".node"))
    group.classList.toggle("node-chosen", row >= 0 && group.dataset.row === String(row));
  for (const path of view.plot.querySelectorAll(".edge"))
    path.classList.toggle(
      "edge-chosen",
      row >= 0 && (path.dataset.from === String(row) || path.dataset.to === String(row)),
    );
}
