// Long series with uPlot, on the same x axis as the timeline.
const plots = [];

const colours = new Map();

// A colour of the style sheet; asking for it is slow, and a plot asks often.
function colour(name) {
  if (!colours.has(name)) {
    const style = getComputedStyle(document.documentElement);
    colours.set(name, style.getPropertyValue(name).trim());
  }
  return colours.get(name);
}

const seriesBox = (name) => el("div", { class: "series", id: `series-${name}` });

function drawSeries() {
  const memories = data.roofs ? data.roofs.kinds : {};
  const load = busSeries(memories);
  if (load.length) {
    const box = seriesBox("bus");
    const caption = "Bytes per second while the NPU core is active; 0 while the CPU is.";
    document
      .getElementById("timeline")
      .append(el("h3", {}, "Bus load"), el("p", { class: "caption" }, caption), box);
    addPlot(box, load, "GB/s", true, (value) => `${value.toFixed(2)} GB/s`);
  }
  if (data.memory) {
    const ram = document.getElementById("series-ram");
    const most = ramSeries().map(peakText).join("; ");
    ram.before(
      el("h3", {}, "RAM in use"),
      el("p", { class: "caption" }, `Activations that are alive: ${most}.`),
    );
    addPlot(ram, ramSeries(), "KiB", false, (value) => `${whole(value)} KiB`);
  }
}

function rate(epoch, moved) {
  const core = epoch.kind === "HW" ? epoch.phases[1] : epoch.ms;
  return core > 0 ? moved / core / 1e6 : 0;
}

function busSeries(memories) {
  const found = [];
  const interfaces = [...new Set(epochs.flatMap((epoch) => epoch.bus.map((bus) => bus[0])))].sort();
  for (const id of interfaces)
    found.push({
      label: `bus interface ${id}`,
      stroke: id ? "--write" : "--core",
      values: epochs.map((epoch) =>
        rate(
          epoch,
          epoch.bus.filter((bus) => bus[0] === id).reduce((sum, bus) => sum + bus[1] + bus[2], 0),
        ),
      ),
    });
  for (const [kind, text, stroke] of memoryKinds(interfaces.length > 0)) {
    const values = epochs.map((epoch) =>
      rate(
        epoch,
        epoch.traffic
          .filter(([pool]) => memories[data.pools[pool]] === kind)
          .reduce((sum, [, read, write]) => sum + read + write, 0),
      ),
    );
    if (values.some((value) => value > 0)) found.push({ label: text, stroke, values });
  }
  return found;
}

// What passes a bus interface is counted there; only without those counts by memory.
const memoryKinds = (counted) => [
  ...(counted
    ? []
    : [
        ["npu", "RAM beside the NPU", "--core"],
        ["chip", "other RAM on the chip", "--write"],
      ]),
  ["flash", "flash", "--software"],
  ["external", "external RAM", "--hybrid"],
];

function ramSeries() {
  const of = (kinds) => data.memory.pools.filter((pool) => kinds.includes(pool.kind));
  const rows = [
    ["on chip", ["npu", "chip"], "--core"],
    ["external RAM", ["external"], "--hybrid"],
  ];
  return rows
    .filter(([, kinds]) => of(kinds).length)
    .map(([text, kinds, stroke]) => ({
      label: text === "on chip" ? text : "in external RAM",
      stroke,
      fill: true,
      values: liveBytes(of(kinds)).map((value) => value / 1024),
    }));
}

function peakText(series) {
  const most = Math.max(...series.values);
  return `at most ${bytes(most * 1024)} ${series.label}, in epoch ${label(epochs[series.values.indexOf(most)])}`;
}

// Steps: an epoch's value holds from its left to its right edge, or over its core alone.
function stepped(series, coreOnly) {
  const xs = [];
  const ys = series.map(() => []);
  const point = (x, at) => {
    xs.push(x);
    series.forEach((one, n) => ys[n].push(at === null ? 0 : one.values[at]));
  };
  epochs.forEach((epoch, i) => {
    const cut = coreOnly && epoch.kind === "HW";
    const [from, to] = cut ? phaseSpan(i, 1) : [leftOf(i), rightOf(i)];
    if (cut && from > leftOf(i)) point(leftOf(i), null);
    point(from, i);
    if (cut && to < rightOf(i)) point(to, null);
  });
  point(span(), epochs.length ? epochs.length - 1 : null);
  return [xs, ...ys];
}

function addPlot(box, series, unit, coreOnly, text) {
  const ink = {
    stroke: () => colour("--dim"),
    grid: { stroke: () => colour("--line"), width: 1 },
    ticks: { show: false },
  };
  const plot = new uPlot(
    {
      width: Math.max(200, box.clientWidth),
      height: 170,
      padding: [8, RIGHT, 0, 0],
      cursor: { drag: { x: true, y: false, setScale: false } },
      scales: { x: { time: false, range: () => [axis.from * span(), axis.to * span()] } },
      axes: [
        {
          ...ink,
          size: 26,
          values: (self, splits) =>
            splits.map((value) =>
              axis.mode === "time" || Number.isInteger(value) ? tickText(value) : "",
            ),
        },
        {
          ...ink,
          size: GUTTER,
          values: (self, splits) =>
            // The corner belongs to the first mark of the axis below.
            splits.map((value) => (value ? `${value.toLocaleString("en-US")} ${unit}` : "")),
        },
      ],
      series: [
        {
          label: "epoch",
          value: (self, value) =>
            value === null || epochAt(value) === null ? "-" : label(epochs[epochAt(value)]),
        },
        ...series.map((one) => ({
          label: one.label,
          width: 1.2,
          points: { show: false },
          stroke: () => colour(one.stroke),
          fill: one.fill ? () => `${colour(one.stroke)}33` : null,
          paths: uPlot.paths.stepped({ align: 1 }),
          value: (self, value) => (value === null || value === undefined ? "-" : text(value)),
        })),
      ],
      hooks: {
        setSelect: [
          (self) => {
            const { left, width } = self.select;
            if (width > 4)
              zoom(self.posToVal(left, "x") / span(), self.posToVal(left + width, "x") / span());
            self.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
          },
        ],
      },
    },
    stepped(series, coreOnly),
    box,
  );
  let mode = axis.mode;
  axis.views.push(() => {
    const width = Math.max(200, widthOf(box));
    if (width !== plot.width) plot.setSize({ width, height: 170 });
    if (mode !== axis.mode) plot.setData(stepped(series, coreOnly), false);
    mode = axis.mode;
    plot.setScale("x", { min: axis.from * span(), max: axis.to * span() });
  });
  plots.push(plot);
}

function forgetPlots() {
  for (const plot of plots.splice(0)) plot.destroy();
  peaks.clear();
}

// A canvas is not redrawn when the colours change.
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  colours.clear();
  for (const plot of plots) plot.redraw();
});
