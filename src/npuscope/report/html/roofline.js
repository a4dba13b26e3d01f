// Roofline: what an epoch reaches against what its memories and the units allow.
const KIND_CLASS = {
  npu: "roof-npu",
  chip: "roof-chip",
  flash: "roof-flash",
  external: "roof-external",
};

function rooflinePoints() {
  const points = [];
  epochs.forEach((epoch, index) => {
    const core = epoch.phases[1];
    if (epoch.kind !== "HW" || !epoch.operations || core <= 0) return;
    for (const { kind } of data.roofs.memories) {
      const moved = epoch.traffic
        .filter(([pool]) => data.roofs.kinds[data.pools[pool]] === kind)
        .reduce((sum, [, read, write]) => sum + read + write, 0);
      if (moved)
        points.push({
          index,
          kind,
          x: epoch.operations / moved,
          y: (epoch.operations / core) * 1e3,
        });
    }
  });
  return points;
}

function drawRoofline() {
  const points = data.roofs ? rooflinePoints() : [];
  if (!points.length) return;
  const hidden = new Set();
  const plot = svg("svg", {
    class: "plot",
    id: "roofline-plot",
    height: 380,
    role: "img",
    "aria-label": "roofline",
  });
  const used = data.roofs.memories.filter(({ kind }) =>
    points.some((point) => point.kind === kind),
  );
  const legend = el(
    "ul",
    { class: "legend" },
    used.map((memory) =>
      el(
        "li",
        {},
        el(
          "label",
          {},
          el("input", {
            type: "checkbox",
            checked: "",
            onchange: (event) => {
              event.target.checked ? hidden.delete(memory.kind) : hidden.add(memory.kind);
              draw();
            },
          }),
          el("i", { class: KIND_CLASS[memory.kind] }),
          `${memory.name}, ${si(memory.bytes_per_s, "B/s")}`,
        ),
      ),
    ),
  );
  const top = data.roofs.compute_per_s;
  root.append(
    section(
      "roofline",
      "Roofline",
      `Each NPU epoch, once for every memory it uses: operations per byte against operations per second of core time. A point on its slope is limited by that memory. The flat roof is the best rate that any epoch of this network could reach by the compiler's ideal cycles${top ? ` (${si(top, "op/s")})` : ""}; slopes are the peak rates of the machine file.`,
      plot,
      legend,
      sourceChip(),
    ),
  );
  const draw = () =>
    drawRoofs(
      plot,
      points.filter((point) => !hidden.has(point.kind)),
      used.filter(({ kind }) => !hidden.has(kind)),
    );
  axis.views.push(draw);
  plot.addEventListener("pointerleave", hideTip);
  plot.addEventListener("pointermove", (event) => {
    const index = event.target.dataset.index;
    if (index === undefined) return hideTip();
    const point = points.find(
      (one) => one.index === Number(index) && one.kind === event.target.dataset.kind,
    );
    showTip(event, [
      ...epochLines(point.index),
      `${si(point.y, "op/s")}, ${point.x.toPrecision(3)} op/B from ${used.find(({ kind }) => kind === point.kind).name}`,
    ]);
  });
  plot.addEventListener("click", (event) => {
    if (event.target.dataset.index !== undefined)
      choose(Number(event.target.dataset.index), "roofline");
  });
}

const LEAST_TICK = 44; // pixels between two numbers of an axis
const decade = (value, up) =>
  10 ** (up ? Math.ceil(Math.log10(value)) : Math.floor(Math.log10(value)));

function drawRoofs(plot, points, memories) {
  const width = drawnWidth(plot);
  const box = { left: 70, right: width - 26, top: 12, bottom: 340 };
  plot.replaceChildren();
  if (!points.length) return;
  const top = data.roofs.compute_per_s || Math.max(...points.map((point) => point.y));
  const lowX = decade(Math.min(...points.map((point) => point.x)), false);
  const highX = decade(
    Math.max(
      ...points.map((point) => point.x),
      ...memories.map((memory) => top / memory.bytes_per_s),
    ),
    true,
  );
  const lowY = decade(Math.min(...points.map((point) => point.y)), false);
  const highY = decade(top * 1.01, true);
  const x = (value) =>
    box.left + (Math.log10(value / lowX) / Math.log10(highX / lowX)) * (box.right - box.left);
  const y = (value) =>
    box.bottom - (Math.log10(value / lowY) / Math.log10(highY / lowY)) * (box.bottom - box.top);
  // On a narrow page every second or third decade has a number.
  const every = Math.max(1, Math.ceil(LEAST_TICK / (x(10 * lowX) - x(lowX))));
  for (let value = lowX, n = 0; value <= highX * 1.001; value *= 10, n += 1) {
    const mark = svg("g", { class: "tick" });
    mark.append(svg("line", { x1: x(value), x2: x(value), y1: box.top, y2: box.bottom }));
    const place = { x: x(value), y: box.bottom + 15, "text-anchor": "middle" };
    if (n % every === 0) mark.append(svg("text", place, `${Number(value.toPrecision(3))}`));
    plot.append(mark);
  }
  for (let value = lowY; value <= highY * 1.001; value *= 10)
    plot.append(
      svg(
        "g",
        { class: "tick" },
        svg("line", { x1: box.left, x2: box.right, y1: y(value), y2: y(value) }),
        svg("text", { x: box.left - 6, y: Math.min(box.bottom - 1, y(value) + 4), "text-anchor": "end" }, si(value, "op/s")),
      ),
    );
  plot.append(
    svg(
      "text",
      {
        class: "axis-name",
        x: (box.left + box.right) / 2,
        y: box.bottom + 33,
        "text-anchor": "middle",
      },
      "operations per byte",
    ),
  );
  for (const memory of memories) {
    const from = Math.max(lowX, lowY / memory.bytes_per_s);
    const knee = Math.min(highX, top / memory.bytes_per_s);
    plot.append(
      svg("path", {
        class: `roof ${KIND_CLASS[memory.kind]}`,
        d: `M${x(from)} ${y(from * memory.bytes_per_s)}L${x(knee)} ${y(knee * memory.bytes_per_s)}H${box.right}`,
      }),
    );
  }
  const dot = (point) =>
    svg("circle", {
      class: `dot ${KIND_CLASS[point.kind]}${point.index === chosen.index ? " dot-chosen" : ""}`,
      cx: x(point.x).toFixed(1),
      cy: y(point.y).toFixed(1),
      r: point.index === chosen.index ? 7 : 2.5 + 5 * Math.sqrt(epochs[point.index].ms / longest),
      "data-index": point.index,
      "data-kind": point.kind,
    });
  const order = [...points].sort(
    (a, b) =>
      (a.index === chosen.index) - (b.index === chosen.index) ||
      epochs[b.index].ms - epochs[a.index].ms,
  );
  plot.append(...order.map(dot));
}
