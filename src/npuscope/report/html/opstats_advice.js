// What holds a many-core inference up and what to change: levers, roofline, nodes, VTCM over time.
function drawAdvice() {
  const { verdict, levers, path, none } = data.advice;
  root.append(
    section(
      "advice",
      "What to change",
      `${verdict}. Gains are compared with one copy and one inference in flight.`,
      path.length ? pathBar(path) : null,
      levers.length
        ? sheet(
            ["lever", "inferences/s", "ms a run", ""],
            levers.map((lever) => [
              lever.name,
              lever.factor,
              ms(lever.ms),
              lever.obstacle,
            ]),
          )
        : el("p", { class: "empty" }, none),
      el("p", {}, chip("predicted")),
    ),
  );
}

// The critical path by what it spends its time with.
const PATH_CLASS = {
  HVX: "part-core",
  HMX: "part-write",
  DDR: "part-software",
  transfers: "part-read",
  synchronisation: "part-hybrid",
  waiting: "part-control",
};

function pathBar(path) {
  let x = 0;
  const bar = svg("svg", {
    class: "time-bar",
    viewBox: "0 0 1000 22",
    preserveAspectRatio: "none",
    role: "img",
    "aria-label": "critical path by kind of work",
  });
  for (const [name, share] of path) {
    bar.append(svg("rect", { class: PATH_CLASS[name], x, y: 0, width: 1000 * share, height: 22 }));
    x += 1000 * share;
  }
  return el(
    "div",
    { class: "times" },
    bar,
    el(
      "ul",
      { class: "legend" },
      el("li", {}, "Critical path:"),
      path.map(([name, share]) =>
        el("li", {}, el("i", { class: PATH_CLASS[name] }), `${name} ${(100 * share).toFixed(0)} %`),
      ),
    ),
  );
}

function drawCoreRoofline() {
  const roof = data.roof;
  if (!roof) return;
  const plot = svg("svg", {
    class: "plot",
    id: "roofline-plot",
    height: 380,
    role: "img",
    "aria-label": "roofline",
  });
  root.append(
    section(
      "roofline",
      "Roofline",
      `Products per byte of DDR traffic against products per second: the whole run, and each module from its first op's start to its last one's end. The slope is DDR (${si(roof.ddr_bytes_per_s, "B/s")}), the flat roof what HMX of all cores could make (${si(roof.macs_per_s, "MAC/s")}).`,
      plot,
      el(
        "ul",
        { class: "legend" },
        el("li", {}, el("i", { class: "part-software" }), "whole run"),
        el("li", {}, el("i", { class: "part-core" }), "modules"),
      ),
      chip("read from a stats buffer"),
    ),
  );
  axis.views.push(() => drawCoreRoofs(plot, roof));
  plot.addEventListener("pointerleave", hideTip);
  plot.addEventListener("pointermove", (event) => {
    const point = roof.points[event.target.dataset.index];
    if (!point) return hideTip();
    const told = `${si(point.y, "MAC/s")}, ${point.x.toPrecision(3)} MACs per byte`;
    showTip(event, [point.name, told, `${point.us.toFixed(1)} µs`]);
  });
}

function drawCoreRoofs(plot, roof) {
  const width = drawnWidth(plot);
  const box = { left: 84, right: width - 26, top: 12, bottom: 340 };
  const knee = roof.macs_per_s / roof.ddr_bytes_per_s;
  const xs = [...roof.points.map((point) => point.x), knee];
  const ys = [...roof.points.map((point) => point.y), roof.macs_per_s];
  const [lowX, highX] = [decade(Math.min(...xs), false), decade(Math.max(...xs) * 1.01, true)];
  const [lowY, highY] = [decade(Math.min(...ys), false), decade(Math.max(...ys) * 1.01, true)];
  const x = (value) =>
    box.left + (Math.log10(value / lowX) / Math.log10(highX / lowX)) * (box.right - box.left);
  const y = (value) =>
    box.bottom - (Math.log10(value / lowY) / Math.log10(highY / lowY)) * (box.bottom - box.top);
  plot.replaceChildren();
  for (let value = lowX; value <= highX * 1.001; value *= 10)
    plot.append(tick(x(value), x(value), box.top, box.bottom, x(value), box.bottom + 15, "middle", `${Number(value.toPrecision(3))}`));
  for (let value = lowY; value <= highY * 1.001; value *= 10)
    plot.append(tick(box.left, box.right, y(value), y(value), box.left - 6, Math.min(box.bottom - 1, y(value) + 4), "end", si(value, "MAC/s")));
  const from = Math.max(lowX, lowY / roof.ddr_bytes_per_s);
  plot.append(
    svg("text", { class: "axis-name", x: (box.left + box.right) / 2, y: box.bottom + 33, "text-anchor": "middle" }, "products per byte of DDR traffic"),
    svg("path", {
      class: "roof roof-flash",
      d: `M${x(from)} ${y(from * roof.ddr_bytes_per_s)}L${x(knee)} ${y(roof.macs_per_s)}H${box.right}`,
    }),
    ...roof.points.map((point, n) =>
      svg("circle", {
        class: `dot ${n ? "part-core" : "part-software"}`,
        cx: x(point.x).toFixed(1),
        cy: y(point.y).toFixed(1),
        r: n ? 4 : 7,
        "data-index": n,
      }),
    ),
  );
}

const tick = (x1, x2, y1, y2, x, y, anchor, text) =>
  svg(
    "g",
    { class: "tick" },
    svg("line", { x1, x2, y1, y2 }),
    svg("text", { x, y, "text-anchor": anchor }, text),
  );

// Nodes of the source network; a module opens to show its own.
function drawNodes() {
  if (!data.modules.length) return;
  const total = data.modules.reduce((sum, module) => sum + module.cycles, 0);
  root.append(
    section(
      "nodes",
      "Nodes of the network, by module",
      "Cycles of HVX and HMX on all cores, DDR traffic, and the time from a node's first op to its last one's end; modules with most cycles first, nodes as they ran.",
      data.modules.map((module, n) =>
        el(
          "details",
          n === 0 ? { class: "rule", open: "" } : { class: "rule" },
          el(
            "summary",
            {},
            el("span", { class: "mark" }, percent(module.cycles, total)),
            `${module.name || "nodes without a module"} (${module.nodes.length})`,
          ),
          sheet(
            ["node", "share", "HVX cycles", "HMX cycles", "MACs", "DDR", "ops", "from µs", "to µs"],
            module.nodes.map(([name, hvx, hmx, macs, moved, ops, from, to]) => [
              name,
              percent(hvx + hmx, total),
              whole(hvx),
              whole(hmx),
              macs ? si(macs, "") : "",
              moved ? bytes(moved) : "",
              whole(ops),
              from.toFixed(1),
              to.toFixed(1),
            ]),
          ),
        ),
      ),
    ),
  );
}

// VTCM: how much of each core's is in use over time, and what lies where on the fullest.
const STRIP = 15;
const MAP_HEIGHT = 260;

function drawVtcm() {
  const vtcm = data.vtcm;
  if (!vtcm) return;
  const strips = vtcm.cores.length * STRIP;
  const top = strips + 40;
  const height = top + MAP_HEIGHT;
  const plot = svg("svg", {
    class: "plot",
    id: "vtcm-plot",
    height: height + 20,
    role: "img",
    "aria-label": "VTCM over time",
  });
  root.append(
    section(
      "vtcm",
      "VTCM over time",
      `Above, how much of its ${bytes(vtcm.room)} each core has in use; below, what lies where on core ${vtcm.core}, from the first op that uses it to the last.`,
      plot,
      el(
        "ul",
        { class: "legend" },
        [
          ["part-read", "in use"],
          ["block-even", "activations"],
          ["block-weights", "constants"],
        ].map(([name, text]) => el("li", {}, el("i", { class: name }), text)),
      ),
      chip("places of the compiler, times of a stats buffer"),
    ),
  );
  axis.views.push(() => {
    const width = drawnWidth(plot);
    const x = (us) => GUTTER + (us / (vtcm.us || 1)) * plotWidth(width);
    plot.replaceChildren(
      ...ticks(0, vtcm.us || 1, Math.max(2, width / 110)).map((us) =>
        tick(x(us), x(us), 0, height, x(us), height + 14, "middle", `${Number(us.toPrecision(5))} µs`),
      ),
    );
    vtcm.cores.forEach((row, n) => plot.append(...vtcmStrip(row, n * STRIP, x)));
    plot.append(
      svg("rect", { class: "pool-room", x: x(0), y: top, width: x(vtcm.us) - x(0), height: MAP_HEIGHT }),
      svg("text", { class: "row-name", x: GUTTER - 8, y: top + 12, "text-anchor": "end" }, `core ${vtcm.core}`),
      svg("text", { class: "pool-scale", x: GUTTER - 8, y: top + 26, "text-anchor": "end" }, bytes(vtcm.drawn)),
      ...vtcm.blocks.map((block, n) => vtcmBlock(block, n, top, x)),
    );
  });
  plot.addEventListener("pointerleave", hideTip);
  plot.addEventListener("pointermove", (event) => {
    const block = vtcm.blocks[event.target.dataset.block];
    const row = vtcm.cores[event.target.dataset.core];
    if (!block && !row) return hideTip();
    if (row) return showTip(event, [`core ${row.core}`, `at most ${bytes(row.most)} in use`]);
    const [name, offset, size, constant, from, to] = block;
    const told = `${bytes(size)} at ${whole(offset)}, ${constant ? "constants" : "activations"}`;
    showTip(event, [name, told, `${from.toFixed(1)} to ${to.toFixed(1)} µs`]);
  });
}

function vtcmStrip(row, top, x) {
  const step = data.vtcm.us / row.parts.length;
  return [
    svg("text", { class: "row-name", x: GUTTER - 8, y: top + 12, "text-anchor": "end" }, `core ${row.core}`),
    ...row.parts.map((part, n) => {
      const height = (STRIP - 3) * Math.min(1, part / data.vtcm.room);
      return svg("rect", {
        class: "part-read",
        x: x(n * step).toFixed(2),
        y: (top + STRIP - 1 - height).toFixed(2),
        width: (x((n + 1) * step) - x(n * step)).toFixed(2),
        height: height.toFixed(2),
        "data-core": row.core,
      });
    }),
  ];
}

function vtcmBlock([, offset, size, constant, from, to], n, top, x) {
  const scale = MAP_HEIGHT / (data.vtcm.drawn || 1);
  return svg("rect", {
    class: `block ${constant ? "block-weights" : n % 2 ? "block-odd" : "block-even"}`,
    x: x(from).toFixed(2),
    y: (top + MAP_HEIGHT - (offset + size) * scale).toFixed(2),
    width: Math.max(0.6, x(to) - x(from)).toFixed(2),
    height: Math.max(0.6, size * scale).toFixed(2),
    "data-block": n,
  });
}
