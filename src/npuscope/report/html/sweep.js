// A sweep: latency against RAM of all runs with the front of every model, best runs, failures.
const COLOURS = ["core", "software", "read", "hybrid", "write", "control"];

function drawSweep() {
  drawSummary();
  drawTradeOff();
  const best = ["model", "ms", "range, ms", "internal RAM", "external RAM", "weights", "with"];
  const parts = [
    section("best", "Best run of every model", "The fastest first.", table(best, data.best, [6])),
    section(
      "fronts",
      "Fronts by model",
      "Runs that no other run of the same model beats in both; the smallest RAM first.",
      table(["model", "ms", "internal RAM", "external RAM", "with"], data.fronts, [4]),
    ),
    section(
      "configurations",
      "Configurations",
      "The last column is the mean latency against the best run of the same model.",
      sheet(["configuration", "done", "failed", "to best"], data.configurations.map(texts)),
    ),
  ];
  // A model with one run on its front stands in the table of best runs already.
  root.append(...parts.filter((part) => part.id !== "fronts" || data.fronts.length));
  if (data.failures.length) {
    const names = ["model", "with", "message", "hint"];
    const rows = table(names, data.failures, [1, 2, 3]);
    root.append(section("failures", "Failed runs", "", rows));
  }
  drawFacts();
  drawMenu();
}

const texts = (cells) => cells.map((cell) => `${cell}`);

// A sheet with further columns of text, which is read from the left.
function table(names, rows, columns) {
  const found = sheet(names, rows);
  for (const column of columns)
    for (const cell of found.querySelectorAll(`td:nth-child(${column + 1})`)) cell.className = "text";
  return found;
}

// Points that no other of the same set beats in both; the smallest RAM first.
function frontOf(points) {
  const front = [];
  for (const point of [...points].sort((a, b) => a.internal - b.internal || a.ms - b.ms))
    if (!front.length || point.ms < front.at(-1).ms) front.push(point);
  return front;
}

// Runs of different models do not compete: every model has a front of its own.
function frontsOf(points) {
  const models = new Map();
  for (const point of points) {
    if (!models.has(point.model)) models.set(point.model, []);
    models.get(point.model).push(point);
  }
  return [...models.values()].map(frontOf);
}

// At the right end of each line, where there is room between the lines.
function frontNames(fronts, y, box) {
  if (fronts.length < 2) return [];
  const taken = [];
  return fronts.flatMap((front) => {
    const place = Math.max(box.top + 10, y(front.at(-1).ms) - 4);
    if (taken.some((other) => Math.abs(other - place) < 13)) return [];
    taken.push(place);
    const name = cut(data.models[front[0].model], 40);
    const at = { class: "front-name", x: box.right - 4, y: place, "text-anchor": "end" };
    return [svg("text", at, name)];
  });
}

const frontText = (points, fronts) =>
  `${points.length === 1 ? "1 run" : `${points.length} runs`}, ${fronts.flat().length} on ` +
  (fronts.length === 1 ? "the front" : `the fronts of ${fronts.length} models`);

function chooser(id, name, options, onchange) {
  const items = options.map(([value, text]) => el("option", { value }, text));
  return el("label", {}, `${name} `, el("select", { id, onchange }, items));
}

function drawTradeOff() {
  if (!data.points.length) return;
  const shown = { model: -1, axis: 0 };
  const plot = svg("svg", {
    class: "plot",
    id: "trade-off-plot",
    height: 420,
    role: "img",
    "aria-label": "latency against internal RAM",
  });
  const legend = el("ul", { class: "legend" });
  const update = () => drawPoints(plot, legend, shown);
  const models = data.models.map((name, n) => [n, name]).sort((a, b) => (a[1] < b[1] ? -1 : 1));
  const bar = el(
    "div",
    { class: "bar" },
    chooser("choose-model", "model", [[-1, "all"], ...models], (event) => {
      shown.model = Number(event.target.value);
      update();
    }),
    data.axes.length
      ? chooser(
          "choose-axis",
          "colour by",
          data.axes.map(([, name], n) => [n, name]),
          (event) => {
            shown.axis = Number(event.target.value);
            update();
          },
        )
      : null,
  );
  root.append(
    section(
      "trade-off",
      "Latency against RAM",
      "Each run once, both axes logarithmic. Runs on a line form the front of their model: no other run of it is faster and needs less internal RAM. A ring marks runs that use external RAM too.",
      bar,
      plot,
      legend,
      sourceChip(),
    ),
  );
  axis.views.push(update);
  plot.addEventListener("pointerleave", hideTip);
  plot.addEventListener("pointermove", (event) => {
    const index = event.target.dataset.index;
    if (index === undefined) return hideTip();
    showTip(event, pointLines(data.points[Number(index)]));
  });
}

const pointLines = (point) => [
  data.models[point.model],
  point.name,
  `${ms(point.ms)} ms (${point.range[1] === null ? `at least ${ms(point.range[0])}` : `${ms(point.range[0])} to ${ms(point.range[1])}`})`,
  `internal RAM ${bytes(point.internal)}, external RAM ${bytes(point.external)}, weights ${bytes(point.weights)}`,
];

// Marks of a logarithmic axis from the last below all values to the first above them.
function logMarks(values, least, base, steps) {
  const low = Math.max(least, Math.min(...values));
  const high = Math.max(low * 1.01, ...values);
  const marks = [];
  for (let power = base ** Math.floor(Math.log(low) / Math.log(base)); power <= high * base; power *= base)
    for (const step of steps) marks.push(step * power);
  const first = marks.findLastIndex((mark) => mark <= low);
  const last = marks.findIndex((mark) => mark >= high);
  return marks.slice(Math.max(0, first), last + 1);
}

function drawPoints(plot, legend, shown) {
  const points = data.points
    .map((point, index) => ({ ...point, index }))
    .filter((point) => shown.model < 0 || point.model === shown.model);
  if (!points.length) {
    plot.replaceChildren();
    legend.replaceChildren(el("li", {}, "no run of this model was done"));
    return;
  }
  const values = [...new Set(points.map((point) => point.choices[shown.axis] ?? ""))].sort();
  const width = drawnWidth(plot);
  const box = { left: 78, right: width - 26, top: 12, bottom: 372 };
  const all = (key) => points.map((point) => point[key]);
  const rams = logMarks(all("internal"), 256, 2, [1]);
  const times = logMarks(all("ms"), 1e-4, 10, [1, 2, 5]);
  const at = (marks, value) =>
    Math.log(Math.max(value, marks[0]) / marks[0]) / Math.log(marks.at(-1) / marks[0]);
  const x = (value) => box.left + at(rams, value) * (box.right - box.left);
  const y = (value) => box.bottom - at(times, value) * (box.bottom - box.top);
  plot.replaceChildren(...tradeOffMarks(box, x, y, rams, times));
  const fronts = frontsOf(points);
  for (const front of fronts)
    plot.append(svg("path", { class: "front", d: staircase(front, x, y, box) }));
  plot.append(...frontNames(fronts, y, box));
  const onFront = new Set(fronts.flat());
  for (const point of [...points].sort((a, b) => onFront.has(a) - onFront.has(b))) {
    const colour = COLOURS[values.indexOf(point.choices[shown.axis] ?? "") % COLOURS.length];
    plot.append(
      svg("circle", {
        class: `dot part-${colour}${point.external ? " dot-external" : ""}`,
        cx: x(point.internal).toFixed(1),
        cy: y(point.ms).toFixed(1),
        r: onFront.has(point) ? 5.5 : 3.5,
        "data-index": point.index,
      }),
    );
  }
  legend.replaceChildren(
    ...(data.axes.length ? values : []).map((value, n) =>
      el("li", {}, el("i", { class: `part-${COLOURS[n % COLOURS.length]}` }), value),
    ),
    el("li", {}, frontText(points, fronts)),
  );
}

// Marks are powers of two.
const round = (value) => bytes(value).replace(/\.0+ /, " ");

function tradeOffMarks(box, x, y, rams, times) {
  const columns = rams.map((value) =>
    svg(
      "g",
      { class: "tick" },
      svg("line", { x1: x(value), x2: x(value), y1: box.top, y2: box.bottom }),
      svg("text", { x: x(value), y: box.bottom + 15, "text-anchor": "middle" }, round(value)),
    ),
  );
  const rows = times.map((value) =>
    svg(
      "g",
      { class: "tick" },
      svg("line", { x1: box.left, x2: box.right, y1: y(value), y2: y(value) }),
      svg(
        "text",
        { x: box.left - 6, y: Math.min(box.bottom - 1, y(value) + 4), "text-anchor": "end" },
        `${Number(value.toPrecision(2))} ms`,
      ),
    ),
  );
  const middle = { x: (box.left + box.right) / 2, y: box.bottom + 34, "text-anchor": "middle" };
  return [...columns, ...rows, svg("text", { class: "axis-name", ...middle }, "internal RAM")];
}

// With this much RAM, this is the least latency: a line that steps down at each run of the front.
function staircase(front, x, y, box) {
  const steps = front.map((point, n) => {
    const [px, py] = [x(point.internal).toFixed(1), y(point.ms).toFixed(1)];
    return n ? `H${px}V${py}` : `M${px} ${box.top}V${py}`;
  });
  return `${steps.join("")}H${box.right}`;
}
