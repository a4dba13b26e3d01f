// Epochs as nodes: left to right by what they wait for, branches below each other.
const NODE = { width: 74, height: 34, gapX: 26, gapY: 14 };

function drawGraph() {
  if (!data.edges || !data.edges.length) {
    root.append(section("graph", "Graph of epochs", "Not known: it needs the program that ran."));
    return;
  }
  const places = layered();
  const high = Math.max(...places.map((place) => place.lane)) + 1;
  const wide = Math.max(...places.map((place) => place.rank)) + 1;
  const size = {
    width: wide * (NODE.width + NODE.gapX) + 10,
    height: high * (NODE.height + NODE.gapY) + 26,
  };
  const plot = svg("svg", {
    id: "graph-plot",
    width: size.width,
    height: size.height,
    viewBox: `0 0 ${size.width} ${size.height}`,
    role: "img",
    "aria-label": "graph of epochs",
  });
  const scroller = el("div", { class: wide > 24 ? "scroller long" : "scroller" }, plot);
  plot.append(...data.edges.map(([from, to]) => edge(places[from], places[to], from, to)));
  const nodes = epochs.map((epoch, index) => node(epoch, index, places[index]));
  plot.append(...nodes);
  root.append(
    section(
      "graph",
      "Graph of epochs",
      "An arrow leads from the epoch that makes a buffer to one that reads it. The fill says where it runs, the bar below how long it takes against the longest.",
      scroller,
      chip("from the program"),
    ),
  );
  onChoice((index, origin) => {
    for (const path of plot.querySelectorAll(".edge"))
      path.classList.toggle(
        "edge-chosen",
        index !== null &&
          (path.dataset.from === String(index) || path.dataset.to === String(index)),
      );
    nodes.forEach((group, n) => group.classList.toggle("node-chosen", n === index));
    if (index !== null && origin !== "graph")
      scroller.scrollTo(
        nodeX(places[index]) - scroller.clientWidth / 2,
        nodeY(places[index]) - scroller.clientHeight / 2,
      );
  });
}

const nodeX = (place) => 5 + place.rank * (NODE.width + NODE.gapX);
const nodeY = (place) => 8 + place.lane * (NODE.height + NODE.gapY);

// The rank of an epoch is one more than that of the last it waits for; lanes are filled from above,
// and an epoch stays in the lane of its producer where it can.
function layered() {
  const inputs = epochs.map(() => []);
  for (const [from, to] of data.edges) if (from < to) inputs[to].push(from);
  const places = [];
  const taken = new Map();
  epochs.forEach((epoch, index) => {
    const rank = inputs[index].length
      ? Math.max(...inputs[index].map((from) => places[from].rank)) + 1
      : 0;
    const used = taken.get(rank) || new Set();
    taken.set(rank, used);
    const wanted = inputs[index].length
      ? Math.min(...inputs[index].map((from) => places[from].lane))
      : 0;
    let lane = wanted;
    while (used.has(lane)) lane += 1;
    used.add(lane);
    places.push({ rank, lane });
  });
  return places;
}

function edge(a, b, from, to) {
  const [x1, y1] = [nodeX(a) + NODE.width, nodeY(a) + NODE.height / 2];
  const [x2, y2] = [nodeX(b), nodeY(b) + NODE.height / 2];
  // A long way round passes below the nodes between.
  const far = b.rank - a.rank > 1 && a.lane === b.lane;
  const dip = far ? NODE.height / 2 + NODE.gapY / 2 : 0;
  const d = far
    ? `M${x1} ${y1}c12 0 4 ${dip} 18 ${dip}H${x2 - 18}c14 0 6 ${-dip} 18 ${-dip}`
    : `M${x1} ${y1}C${x1 + 14} ${y1} ${x2 - 14} ${y2} ${x2} ${y2}`;
  return svg("path", { class: "edge", d, "data-from": from, "data-to": to });
}

function node(epoch, index, place) {
  const [x, y] = [nodeX(place), nodeY(place)];
  const words = counted(epoch.ops) || epoch.kind;
  const short = words.length > 12 ? `${words.slice(0, 11)}…` : words;
  return svg(
    "g",
    {
      class: `node ${kindClass(epoch)}`,
      tabindex: 0,
      role: "button",
      "data-index": index,
      "aria-label": `epoch ${label(epoch)}`,
      onclick: () => choose(index, "graph"),
      onkeydown: (event) => {
        if (event.key === "Enter") choose(index, "graph");
      },
      onpointermove: (event) => showTip(event, epochLines(index)),
      onpointerleave: hideTip,
    },
    svg("rect", { class: "node-box", x, y, width: NODE.width, height: NODE.height, rx: 4 }),
    svg("rect", {
      class: "node-time",
      x: x + 3,
      y: y + NODE.height - 5,
      width: Math.max(1, ((NODE.width - 6) * epoch.ms) / (longest || 1)),
      height: 3,
    }),
    svg("text", { class: "node-number", x: x + 5, y: y + 12 }, label(epoch)),
    svg("text", { class: "node-ops", x: x + 5, y: y + 24 }, short),
  );
}
