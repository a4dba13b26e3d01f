// Memory over time: every buffer as a block from its first to its last epoch, at its address.
const POOL_GAP = 26;

function drawMemory() {
  if (!data.memory) return;
  const pools = data.memory.pools.map((pool) => ({ ...pool, height: poolHeight(pool) }));
  const height = pools.reduce((sum, pool) => sum + pool.height + POOL_GAP, 0);
  const plot = svg("svg", {
    class: "plot",
    id: "memory-plot",
    height: height + AXIS_HEIGHT,
    role: "img",
    "aria-label": "memory map over time",
  });
  const legend = el(
    "ul",
    { class: "legend" },
    [
      ["block-even", "activations"],
      ["block-weights", "weights"],
      ["peak-mark", "most bytes alive"],
    ].map(([name, text]) => el("li", {}, el("i", { class: name }), text)),
  );
  root.append(
    section(
      "memory",
      "Memory over time",
      "A block is drawn at its address in the pool, from the epoch that writes it to the last that reads it. Each pool is drawn up to its highest used byte.",
      plot,
      legend,
      chip("from the placement of this program"),
      seriesBox("ram"),
    ),
  );
  const draw = () => {
    const width = drawnWidth(plot);
    plot.replaceChildren(...axisMarks(width, height));
    let top = POOL_GAP;
    for (const pool of pools) {
      pool.top = top;
      plot.append(...poolBlocks(pool, width));
      top += pool.height + POOL_GAP;
    }
    plot.append(...[choiceMark(width, height)].filter((mark) => mark));
  };
  axis.views.push(draw);
  interactive(plot, "memory", (index, event) => memoryLines(pools, index, event, plot));
}

// Weights alone need no map; a pool of activations gets room by its size.
function poolHeight(pool) {
  const busy = pool.pieces.some(([buffer]) => !data.memory.buffers[buffer][4]);
  const largest = Math.max(
    ...data.memory.pools.filter((one) => one.kind !== "flash").map((one) => one.used),
    1,
  );
  return busy ? 46 + Math.round(84 * Math.min(1, pool.used / largest)) : 16;
}

function poolBlocks(pool, width) {
  const low = GUTTER;
  const high = width - RIGHT;
  const peak = poolPeak(pool);
  const marks = [
    svg("rect", {
      class: "pool-room",
      x: low,
      y: pool.top,
      width: high - low,
      height: pool.height,
    }),
    svg(
      "text",
      { class: "row-name", x: GUTTER - 8, y: pool.top + 12, "text-anchor": "end" },
      pool.name,
    ),
    svg(
      "text",
      { class: "pool-name", x: GUTTER, y: pool.top - 5 },
      fitting(
        [
          `${bytes(pool.used)} of ${bytes(pool.size)} used`,
          ` (${percent(pool.used, pool.size)})`,
          peak.live
            ? `, at most ${bytes(peak.live)} alive at once, in epoch ${label(epochs[peak.index])}`
            : "",
        ],
        high - GUTTER,
      ),
    ),
  ];
  if (pool.height > 30)
    marks.push(
      svg(
        "text",
        { class: "pool-scale", x: GUTTER - 8, y: pool.top + 26, "text-anchor": "end" },
        bytes(pool.used),
      ),
    );
  let number = 0;
  for (const [buffer, from, to] of pool.pieces) {
    const [, first, last, , weights] = data.memory.buffers[buffer];
    const x = Math.max(low, weights ? low : toX(leftOf(first), width));
    const end = Math.min(high, weights ? high : toX(rightOf(last), width));
    number += 1;
    if (end <= x) continue;
    const y = pool.top + pool.height * (1 - to / pool.used);
    const name = weights ? "block-weights" : number % 2 ? "block-odd" : "block-even";
    const chosenHere =
      chosen.index !== null && !weights && first <= chosen.index && chosen.index <= last;
    marks.push(
      svg("rect", {
        class: `block ${name}${chosenHere ? " block-alive" : ""}`,
        x: x.toFixed(2),
        y: y.toFixed(2),
        width: Math.max(0.6, end - x).toFixed(2),
        height: Math.max(0.6, (pool.height * (to - from)) / pool.used).toFixed(2),
      }),
    );
  }
  if (peak.live) {
    const x = toX((leftOf(peak.index) + rightOf(peak.index)) / 2, width);
    if (x >= low && x <= high)
      marks.push(
        svg("line", {
          class: "peak-mark",
          x1: x,
          x2: x,
          y1: pool.top - 2,
          y2: pool.top + pool.height + 2,
        }),
      );
  }
  return marks;
}

const peaks = new Map();

function poolPeak(pool) {
  if (!peaks.has(pool.name)) {
    const live = liveBytes([pool]);
    const most = Math.max(0, ...live);
    peaks.set(pool.name, { live: most, index: Math.max(0, live.indexOf(most)) });
  }
  return peaks.get(pool.name);
}

// Bytes of activations alive in each epoch.
function liveBytes(pools) {
  const change = new Array(epochs.length + 1).fill(0);
  for (const pool of pools)
    for (const [buffer, from, to] of pool.pieces) {
      const [, first, last, , weights] = data.memory.buffers[buffer];
      if (weights) continue;
      change[first] += to - from;
      change[last + 1] -= to - from;
    }
  let alive = 0;
  return change.slice(0, -1).map((step) => (alive += step));
}

function memoryLines(pools, index, event, plot) {
  const y = event.clientY - plot.getBoundingClientRect().top;
  const pool = pools.find((one) => y >= one.top && y <= one.top + one.height);
  if (!pool) return epochLines(index);
  const address = pool.used * (1 - (y - pool.top) / pool.height);
  const hit = pool.pieces.filter(([buffer, from, to]) => {
    const [, first, last, , weights] = data.memory.buffers[buffer];
    return from <= address && address < to && (weights || (first <= index && index <= last));
  })[0];
  if (!hit) return [`${pool.name}: free here`, `epoch ${label(epochs[index])}`];
  const [name, first, last, size, weights, shape] = data.memory.buffers[hit[0]];
  return [
    name,
    `${shape}, ${bytes(size)}`,
    `${pool.name} + ${whole(hit[1])}`,
    weights ? "weights: always there" : `epochs ${epochs[first].first} to ${epochs[last].last}`,
  ];
}
