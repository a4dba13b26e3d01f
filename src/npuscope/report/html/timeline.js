// Epochs over time: who works when. One path per row, so that 700 epochs stay fast to draw.
const ROW = 20;
const ENGINE_ROW = 13;
const AXIS_HEIGHT = 20;
const WORK_ROWS = 3; // below them one for each stream engine

function timelineRows() {
  const rows = [
    {
      name: "CPU: start, end",
      height: ROW,
      parts: [
        [
          "part-control",
          (e) =>
            e.kind === "HW" && [
              [0, 1],
              [2, 1],
            ],
        ],
      ],
    },
    { name: "NPU core", height: ROW, parts: [["part-core", (e) => e.kind === "HW" && [[1, 1]]]] },
    {
      name: "CPU: software",
      height: ROW,
      parts: [
        [
          "part-software",
          (e) =>
            e.kind === "SW" && [
              [0, 1],
              [1, 1],
              [2, 1],
            ],
        ],
        [
          "part-hybrid",
          (e) =>
            e.kind === "HYBRID" && [
              [0, 1],
              [1, 1],
              [2, 1],
            ],
        ],
      ],
    },
  ];
  const ids = [...new Set(epochs.flatMap((epoch) => epoch.engines.map((engine) => engine[0])))];
  for (const id of ids.sort((a, b) => a - b)) rows.push(engineRow(id));
  return rows;
}

// The height of a block is the share of the core time in which the engine moved data.
function engineRow(id) {
  const busif = epochs.flatMap((epoch) => epoch.engines).find((engine) => engine[0] === id)[2];
  const moved = (writes) => (epoch) => {
    const engine = epoch.engines.find((one) => one[0] === id && one[1] === writes);
    return engine && [[epoch.kind === "HW" ? 1 : 2, Math.max(0.12, engine[3])]];
  };
  return {
    name: `engine ${id}, bus ${busif}`,
    height: ENGINE_ROW,
    parts: [
      ["part-read", moved(0)],
      ["part-write", moved(1)],
    ],
  };
}

// By epoch all blocks are equally wide: there their height shows the time.
const timeShare = (epoch) => (axis.mode === "epoch" ? Math.max(0.1, epoch.ms / (longest || 1)) : 1);

function rowPath(row, part, top, width, range) {
  const pieces = [];
  const low = GUTTER;
  const high = width - RIGHT;
  const inner = row.height - 3;
  for (let i = range[0]; i <= range[1]; i++) {
    for (const [phase, share] of part(epochs[i]) || []) {
      const [from, to] = phaseSpan(i, phase);
      if (to <= from) continue;
      const x = Math.max(low, toX(from, width));
      const end = Math.min(high, toX(to, width));
      if (end < x) continue;
      // A hair's gap keeps neighbours apart where there is room for one.
      const size = Math.max(0.4, end - x - (end - x > 3 ? 0.6 : 0));
      const tall = inner * share * (row.height === ROW ? timeShare(epochs[i]) : 1);
      pieces.push(
        `M${x.toFixed(2)} ${(top + 1 + inner - tall).toFixed(2)}h${size.toFixed(2)}v${tall.toFixed(2)}h${(-size).toFixed(2)}z`,
      );
    }
  }
  return pieces.join("");
}

function drawTimeline() {
  // Without phases nothing is known of when an epoch ran.
  if (epochs.length && !epochs.some((epoch) => epoch.phases.some((part) => part))) return;
  const rows = timelineRows();
  const height = rows.reduce((sum, row) => sum + row.height, 0);
  const plot = svg("svg", {
    class: "plot",
    id: "timeline-plot",
    height: height + AXIS_HEIGHT,
    role: "img",
    "aria-label": "timeline of epochs",
  });
  const part = el("output", { class: "hint", id: "timeline-part" });
  const legend = el(
    "ul",
    { class: "legend" },
    [
      ["part-core", "NPU core"],
      ["part-control", "control (start, end)"],
      ["part-software", "software"],
      ["part-hybrid", "hybrid"],
      ["part-read", "engine reads"],
      ["part-write", "engine writes"],
    ].slice(0, rows.length > WORK_ROWS ? 6 : 4).map(([name, text]) => el("li", {}, el("i", { class: name }), text)),
  );
  root.append(
    section(
      "timeline",
      "Timeline",
      rows.length > WORK_ROWS
        ? "Epochs run one after the other. A stream engine's block is as high as the share of the core time in which it moved data. By epoch, a block of the first three rows is as high as its epoch is long."
        : "Epochs run one after the other. By epoch, a block is as high as its epoch is long.",
      zoomBar(),
      plot,
      part,
      legend,
      sourceChip(),
    ),
  );
  const draw = () => {
    const width = drawnWidth(plot);
    const range = visibleRange();
    let top = 0;
    plot.replaceChildren(...axisMarks(width, height));
    part.textContent = axis.to - axis.from > 0.999 ? "" : rangeText(range);
    for (const row of rows) {
      plot.append(
        svg("line", {
          class: "guide",
          x1: GUTTER,
          x2: width - RIGHT,
          y1: top + row.height - 1.5,
          y2: top + row.height - 1.5,
        }),
      );
      plot.append(
        svg(
          "text",
          { class: "row-name", x: GUTTER - 8, y: top + row.height / 2 + 4, "text-anchor": "end" },
          row.name,
        ),
      );
      for (const [name, part] of row.parts)
        plot.append(svg("path", { class: name, d: rowPath(row, part, top, width, range) }));
      top += row.height;
    }
    plot.append(...[choiceMark(width, height)].filter((mark) => mark));
  };
  axis.views.push(draw);
  onChoice((index, origin) => {
    if (index !== null && origin !== "timeline" && origin !== "memory") reveal(index);
    redraw();
  });
  interactive(plot, "timeline", epochLines);
}

// What the epochs in a window take, where they run.
function rangeText([first, last]) {
  const inside = epochs.slice(first, last + 1);
  const spent = (some) => some.reduce((sum, epoch) => sum + epoch.ms, 0);
  const places = Object.entries(PLACE)
    .map(([kind, name]) => [name, spent(inside.filter((epoch) => epoch.kind === kind))])
    .filter(([, time]) => time)
    .map(([name, time]) => `${name} ${ms(time)} ms`);
  const ends = inside.length === 1 ? label(inside[0]) : `${inside[0].first} to ${inside.at(-1).last}`;
  const count = inside.length === 1 ? "epoch" : `${inside.length} epochs,`;
  const all = spent(inside);
  return `${count} ${ends}: ${ms(all)} ms, ${percent(all, data.total_ms)} of the inference (${places.join(", ")})`;
}

// Move the window so that an epoch chosen elsewhere can be seen.
function reveal(index) {
  const middle = (leftOf(index) + rightOf(index)) / 2 / span();
  if (middle >= axis.from && middle <= axis.to) return;
  const half = (axis.to - axis.from) / 2;
  zoom(middle - half, middle + half);
}
