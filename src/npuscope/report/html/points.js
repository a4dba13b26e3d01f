// A cloud of points that all were timed: two measures against each other, a front over what is
// shown, and a filter that the table below follows. For sweeps, `tune` and `quantize`.
const COLOURS = ["core", "software", "read", "hybrid", "write", "control"];
const cloud = { words: [], model: -1, axis: 0, x: 0, y: 1, most: {} };

function drawCloud() {
  const { points, measures } = data.cloud;
  if (!points.length) return;
  Object.assign(cloud, { x: data.cloud.x, y: data.cloud.y });
  const plot = svg("svg", { class: "plot", id: "trade-off-plot", height: 420, role: "img" });
  plot.setAttribute("aria-label", "points that were timed");
  const legend = el("ul", { class: "legend" });
  const rows = el("div", { id: "points-table" });
  const update = () => showCloud(plot, legend, rows);
  root.append(
    section(
      "trade-off",
      data.cloud.title,
      data.cloud.caption,
      cloudBar(measures, update),
      plot,
      legend,
      sourceChip(),
      rows,
    ),
  );
  axis.views.push(update);
  plot.addEventListener("pointerleave", hideTip);
  plot.addEventListener("pointermove", (event) => {
    const index = event.target.dataset.index;
    if (index === undefined) return hideTip();
    showTip(event, pointLines(points[Number(index)]));
  });
}

function chooser(id, name, options, onchange) {
  const items = options.map(([value, text]) => el("option", { value }, text));
  return el("label", {}, `${name} `, el("select", { id, onchange }, items));
}

function cloudBar(measures, update) {
  const set = (key) => (event) => {
    cloud[key] = Number(event.target.value);
    update();
  };
  const names = measures.map(([name], n) => [n, name]);
  const models = data.cloud.models.map((name, n) => [n, name]).sort((a, b) => (a[1] < b[1] ? -1 : 1));
  const bar = el(
    "div",
    { class: "bar" },
    el("input", {
      id: "filter-points",
      type: "search",
      placeholder: "filter: name, ms<10 …",
      "aria-label": "filter points",
      oninput: (event) => {
        cloud.words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
        update();
      },
    }),
    models.length > 1 ? chooser("choose-model", "model", [[-1, "all"], ...models], set("model")) : null,
    data.cloud.axes.length
      ? chooser("choose-axis", "colour by", data.cloud.axes.map((name, n) => [n, name]), set("axis"))
      : null,
    measures.length > 2 ? chooser("choose-x", "across", names, set("x")) : null,
    measures.length > 2 ? chooser("choose-y", "up", names, set("y")) : null,
  );
  for (const key of ["x", "y"]) {
    const select = bar.querySelector(`#choose-${key}`);
    if (select) select.value = `${cloud[key]}`;
  }
  return bar;
}

// A word is a part of the name, or a bound: ms<10, internal<500 (KiB), top-1>0.9.
function accepts(point, word) {
  const bound = word.match(/^([^<>]+)([<>])([\d.]+)$/);
  if (!bound) return point.text.includes(word);
  const place = data.cloud.measures.findIndex(([name]) => name.toLowerCase().includes(bound[1]));
  if (place < 0) return point.text.includes(word);
  const unit = data.cloud.measures[place][1] === "bytes" ? 1024 : 1;
  const value = point.values[place] / unit;
  return bound[2] === "<" ? value < Number(bound[3]) : value > Number(bound[3]);
}

function shownPoints() {
  const { points, models } = data.cloud;
  for (const point of points)
    point.text ??= [models[point.model] ?? "", point.name, ...point.choices].join(" ").toLowerCase();
  return points
    .map((point, index) => ({ ...point, index }))
    .filter((point) => cloud.model < 0 || point.model === cloud.model)
    .filter((point) => cloud.words.every((word) => accepts(point, word)));
}

const better = (measure, a, b) => (measure[2] ? a > b : a < b);

// Points that no other shown one beats in both measures, from left to right.
function frontOf(points) {
  const [across, up] = [cloud.x, cloud.y].map((place) => data.cloud.measures[place]);
  const sign = across[2] ? -1 : 1;
  const order = [...points].sort(
    (a, b) =>
      sign * (a.values[cloud.x] - b.values[cloud.x]) ||
      (up[2] ? -1 : 1) * (a.values[cloud.y] - b.values[cloud.y]),
  );
  const front = [];
  for (const point of order)
    if (!front.length || better(up, point.values[cloud.y], front.at(-1).values[cloud.y]))
      front.push(point);
  return front.sort((a, b) => a.values[cloud.x] - b.values[cloud.x]);
}

const shownValue = (value, kind) =>
  value === null
    ? "-"
    : kind === "bytes"
      ? bytes(value)
      : kind === "ms"
        ? `${ms(value)} ms`
        : kind === "share"
          ? `${(100 * value).toFixed(2)} %`
          : `${Number(value.toPrecision(4))}`;

const pointLines = (point) =>
  [
    data.cloud.models[point.model],
    point.name,
    ...data.cloud.measures.map(([name, kind], n) => `${name} ${shownValue(point.values[n], kind)}`),
    point.note,
  ].filter((line) => line);

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

// Of an even axis: about six, around all values.
function evenMarks(values) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const raw = Math.max((high - low) / 5, Math.abs(high) * 1e-4, 1e-9);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((s) => s * power >= raw) * power;
  const first = Math.floor(low / step);
  const count = Math.max(1, Math.ceil(high / step - 1e-9) - first);
  return Array.from({ length: count + 1 }, (_, n) => (first + n) * step);
}

// Times over a factor of four, and sizes, are seen best on a logarithmic axis.
function scaleOf(place, points) {
  const kind = data.cloud.measures[place][1];
  const values = points.map((point) => point.values[place]);
  const wide = Math.max(...values) > 4 * Math.min(...values);
  const log = kind === "bytes" || (kind === "ms" && wide);
  const marks = !log
    ? evenMarks(values)
    : kind === "bytes"
      ? logMarks(values, 256, 2, [1])
      : logMarks(values, 1e-4, 10, [1, 2, 5]);
  const [low, high] = [marks[0], marks.at(-1)];
  const part = (value) =>
    log ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : (value - low) / (high - low);
  return { marks, part, kind };
}

function showCloud(plot, legend, rows) {
  const shown = shownPoints();
  const points = shown.filter(
    (point) => point.values[cloud.x] !== null && point.values[cloud.y] !== null,
  );
  if (!points.length) {
    plot.replaceChildren();
    rows.replaceChildren();
    legend.replaceChildren(el("li", {}, shown.length ? "nothing is known of these" : "no run is left"));
    return;
  }
  const values = [...new Set(points.map((point) => point.choices[cloud.axis] ?? ""))].sort();
  const box = { left: 78, right: drawnWidth(plot) - 26, top: 12, bottom: 372 };
  const across = scaleOf(cloud.x, points);
  const up = scaleOf(cloud.y, points);
  const x = (value) => box.left + across.part(value) * (box.right - box.left);
  const y = (value) => box.bottom - up.part(value) * (box.bottom - box.top);
  plot.replaceChildren(...cloudMarks(box, x, y, across, up));
  const front = frontOf(points);
  if (front.length > 1) plot.append(svg("path", { class: "front", d: staircase(front, x, y) }));
  const onFront = new Set(front.map((point) => point.index));
  const last = [...points].sort((a, b) => onFront.has(a.index) - onFront.has(b.index));
  for (const point of last) {
    const colour = COLOURS[values.indexOf(point.choices[cloud.axis] ?? "") % COLOURS.length];
    plot.append(
      svg("circle", {
        class: `dot part-${colour}${point.ring ? " dot-external" : ""}`,
        cx: x(point.values[cloud.x]).toFixed(1),
        cy: y(point.values[cloud.y]).toFixed(1),
        r: onFront.has(point.index) ? 5.5 : 3.5,
        "data-index": point.index,
      }),
    );
  }
  plot.append(...frontNames(front, x, y, box));
  legend.replaceChildren(
    ...(data.cloud.axes.length && values.length < 13 ? values : []).map((value, n) =>
      el("li", {}, el("i", { class: `part-${COLOURS[n % COLOURS.length]}` }), value),
    ),
    el("li", {}, `${points.length === 1 ? "1 point" : `${points.length} points`}, ${front.length} on the front`),
  );
  rows.replaceChildren(cloudTable(shown, onFront));
}

// Names of the front where there is room: none covers another one, and none leaves the plot.
function frontNames(front, x, y, box) {
  const taken = [];
  const most = Math.max(12, Math.floor((box.right - box.left) / 14));
  return front.flatMap((point) => {
    const name = cut(data.cloud.models.length > 1 ? data.cloud.models[point.model] : point.name, most);
    const size = measured(name);
    const width = size.width;
    const high = size.fontBoundingBoxAscent + size.fontBoundingBoxDescent;
    const [px, py] = [x(point.values[cloud.x]), y(point.values[cloud.y])];
    const left = px + 9 + width > box.right ? px - 9 - width : px + 9;
    const spot = { left: Math.max(box.left, left), top: Math.max(box.top + 10, py - 8) };
    const room = taken.every(
      (other) =>
        Math.abs(other.top - spot.top) > high ||
        spot.left > other.left + other.width ||
        other.left > spot.left + width,
    );
    if (!room || spot.left + width > box.right + 20) return [];
    taken.push({ ...spot, width });
    return [svg("text", { class: "front-name", x: spot.left, y: spot.top }, name)];
  });
}

const MOST_ROWS = 200;

function cloudTable(points, onFront) {
  const { measures, models } = data.cloud;
  const several = models.length > 1;
  const names = [...(several ? ["model"] : []), data.cloud.with, ...measures.map(([name]) => name)];
  const order = [...points].sort(
    (a, b) => onFront.has(b.index) - onFront.has(a.index) || a.values[0] - b.values[0],
  );
  const rows = order.slice(0, MOST_ROWS).map((point) => [
    ...(several ? [models[point.model]] : []),
    `${onFront.has(point.index) ? "on the front: " : ""}${point.name}`,
    ...measures.map(([, kind], n) => shownValue(point.values[n], kind)),
  ]);
  const sheetOf = table(names, rows, [0, several ? 1 : 0]);
  return points.length > MOST_ROWS
    ? el("div", {}, sheetOf, el("p", { class: "caption" }, `${points.length - MOST_ROWS} more: filter`))
    : sheetOf;
}

const markText = (value, kind) =>
  kind === "bytes"
    ? bytes(value).replace(/\.0+ /, " ")
    : kind === "ms"
      ? `${Number(value.toPrecision(3))} ms`
      : kind === "share"
        ? `${Number((100 * value).toPrecision(4))} %`
        : `${Number(value.toPrecision(4))}`;

// Every second mark, or fewer, where their texts would touch.
function thinned(marks, room, width) {
  const every = Math.max(1, Math.ceil((marks.length * width) / room));
  return marks.filter((_, n) => n % every === 0);
}

function cloudMarks(box, x, y, across, up) {
  const columns = thinned(across.marks, box.right - box.left, 62).map((value) =>
    svg(
      "g",
      { class: "tick" },
      svg("line", { x1: x(value), x2: x(value), y1: box.top, y2: box.bottom }),
      svg("text", { x: x(value), y: box.bottom + 15, "text-anchor": "middle" }, markText(value, across.kind)),
    ),
  );
  const lines = thinned(up.marks, box.bottom - box.top, 16).map((value) =>
    svg(
      "g",
      { class: "tick" },
      svg("line", { x1: box.left, x2: box.right, y1: y(value), y2: y(value) }),
      svg(
        "text",
        { x: box.left - 6, y: Math.min(box.bottom - 1, y(value) + 4), "text-anchor": "end" },
        markText(value, up.kind),
      ),
    ),
  );
  const middle = { x: (box.left + box.right) / 2, y: box.bottom + 34, "text-anchor": "middle" };
  const title = `${data.cloud.measures[cloud.x][0]}; upwards ${data.cloud.measures[cloud.y][0]}`;
  return [...columns, ...lines, svg("text", { class: "axis-name", ...middle }, title)];
}

// What is best up to here: a line that steps at each point of the front.
const staircase = (front, x, y) =>
  front
    .map((point, n) => {
      const [px, py] = [x(point.values[cloud.x]).toFixed(1), y(point.values[cloud.y]).toFixed(1)];
      return n ? `H${px}V${py}` : `M${px} ${py}`;
    })
    .join("");

// The pages of `tune` and `quantize`: the answer, the cloud, and how to make what was chosen.
function drawChoices() {
  drawHead(data.said);
  drawCloud();
  for (const one of data.tables)
    root.append(section(one.id, one.title, one.caption, table(one.names, one.rows, one.texts)));
  drawFacts();
  drawMenu();
}
