// Two runs: both sides, where the time went, then row by row.
function drawComparison() {
  document.title = `${data.title} · npuscope`;
  root.append(
    head(...data.notes),
    ...comparisonParts(data),
  );
  if (data.fidelity.length)
    root.append(
      section(
        "fidelity",
        "Our compiler and theirs",
        "",
        el("pre", { class: "told" }, data.fidelity.join("\n")),
      ),
    );
  data.notes = [];
  drawFacts();
  drawMenu();
}

// What the page of a comparison and the live view share.
function comparisonParts(found) {
  const rows = found.rows.length ? [comparedRows(found)] : [];
  const moves = found.moves.length ? [comparedMoves(found)] : [];
  const pools = found.pools.length ? [comparedPools(found)] : [];
  const causes = found.causes.length ? [comparedCauses(found)] : [];
  return [comparedSides(found), ...causes, ...rows, ...moves, ...pools];
}

const signed = (value) => `${value < 0 ? "−" : "+"}${ms(Math.abs(value))}`;

function comparedSides(found) {
  const most = Math.max(...found.sides.map((side) => side.total_ms), 1e-9);
  const [a, b] = [found.sides[0], found.sides[1]];
  const cards = found.sides.map((side) =>
    el(
      "div",
      { class: "side", "data-side": side.letter },
      el("h3", {}, el("span", { class: "letter" }, side.letter), ` ${side.name}`),
      el("p", { class: "caption" }, side.machine),
      el("div", { class: "side-time" }, `${ms(side.total_ms)} ms`, sideChange(side, a, b)),
      sideStrip(side, most),
      el(
        "table",
        { class: "facts" },
        el(
          "tbody",
          {},
          [
            ...side.time.map(([name, value]) => [name, `${ms(value)} ms`]),
            ...side.figures.slice(1),
          ].map(([name, value]) =>
            el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, value)),
          ),
        ),
      ),
      chip(side.sure || side.source),
    ),
  );
  return section(
    "sides",
    "Side by side",
    "The strips share one time axis: every block is an epoch, coloured by where it runs.",
    el("div", { class: "columns" }, cards),
    kindLegend(),
  );
}

const kindLegend = () =>
  el(
    "ul",
    { class: "legend" },
    [
      ["part-core", "NPU"],
      ["part-software", "CPU"],
      ["part-hybrid", "library call"],
    ].map(([name, text]) => el("li", {}, el("i", { class: name }), text)),
  );

function sideChange(side, a, b) {
  if (!b || side !== b || !a.total_ms) return null;
  const change = b.total_ms - a.total_ms;
  const way = change < -1e-6 ? "better" : change > 1e-6 ? "worse" : "even";
  const share = (100 * change) / a.total_ms;
  return el(
    "span",
    { class: `change ${way}` },
    ` ${signed(change)} ms, ${share < 0 ? "−" : "+"}${Math.abs(share).toFixed(1)} %`,
  );
}

const KIND_PART = { HW: "part-core", SW: "part-software", HYBRID: "part-hybrid" };

// Epochs one after the other; one path per kind, so that hundreds stay fast to draw.
function sideStrip(side, most) {
  const paths = { HW: [], SW: [], HYBRID: [] };
  let clock = 0;
  for (const [, kind, time] of side.starts) {
    const [x, width] = [(1000 * clock) / most, (1000 * time) / most];
    paths[kind].push(`M${x.toFixed(2)} 0h${Math.max(0.15, width * 0.94).toFixed(2)}v26H${x.toFixed(2)}z`);
    clock += time;
  }
  const strip = svg(
    "svg",
    {
      class: "strip",
      viewBox: "0 0 1000 26",
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `epochs of ${side.letter} over time`,
    },
    Object.entries(paths).map(([kind, parts]) =>
      svg("path", { class: KIND_PART[kind], d: parts.join("") }),
    ),
  );
  strip.addEventListener("pointerleave", hideTip);
  strip.addEventListener("pointermove", (event) => {
    const box = strip.getBoundingClientRect();
    let rest = ((event.clientX - box.left) / box.width) * most;
    const hit = side.starts.find(([, , time]) => (rest -= time) < 0);
    if (!hit) return hideTip();
    showTip(event, [`${side.letter}: epoch ${hit[0]} · ${hit[1]} · ${ms(hit[2])} ms`, hit[3]]);
  });
  return strip;
}

// Bars to the left save time, bars to the right cost it.
function comparedCauses(found) {
  const most = Math.max(...found.causes.map(([, spent]) => Math.abs(spent)), 1e-9);
  const rows = found.causes.map(([kind, spent, count]) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, kind),
      el("td", { class: "number" }, `${signed(spent)} ms`),
      el("td", { class: "cause-bar" }, causeBar(spent / most)),
      el("td", { class: "caption" }, count === 1 ? "1 row" : `${count} rows`),
    ),
  );
  return section(
    "causes",
    "Where the time went",
    `B − A is ${signed(found.delta_ms)} ms. Bars to the left save time, bars to the right cost it.`,
    el("table", { class: "causes" }, el("tbody", {}, rows)),
  );
}

function causeBar(share) {
  const width = Math.max(1, Math.abs(share) * 100);
  return svg(
    "svg",
    { viewBox: "0 0 204 12", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("line", { class: "guide", x1: 102, x2: 102, y1: 0, y2: 12 }),
    svg("rect", {
      class: share < 0 ? "part-read" : "part-software",
      x: share < 0 ? 102 - width : 102,
      y: 1,
      width,
      height: 10,
    }),
  );
}

const PLACE = { HW: "NPU", SW: "CPU", HYBRID: "library call" };
const placeOf = (kinds) => kinds.map((kind) => PLACE[kind]).join(", ") || "-";

function comparedRows(found) {
  const names = ["difference, ms", "A, ms", "B, ms", "from", "cause", "A runs on", "B runs on"];
  const rows = found.rows.map((row) => [
    signed(row.b - row.a),
    ms(row.a),
    ms(row.b),
    row.ops.join(", "),
    row.causes
      .slice(0, 3)
      .map(([kind, text, spent], n) => (n ? `${kind} ${signed(spent)} ms: ${text}` : `${kind}: ${text}`))
      .join("; "),
    placeOf(row.a_kinds),
    placeOf(row.b_kinds),
  ]);
  const more = found.more_rows ? ` ${found.more_rows} more ${found.more_rows === 1 ? "is" : "are"} in the JSON.` : "";
  const same = found.same_rows ? ` ${found.same_rows === 1 ? "1 row" : `${found.same_rows} rows`} did not change.` : "";
  return section(
    "rows",
    "Differences by source op",
    `The largest first.${same}${more}`,
    searched(el("div", { class: "wrapped" }, table(names, rows, [3, 4, 5, 6]))),
  );
}

const comparedMoves = (found) =>
  section(
    "moves",
    "Ops that moved",
    "Between NPU, library calls and CPU.",
    table(["op", "A", "B", "why"], found.moves, [0, 1, 2, 3]),
  );

const comparedPools = (found) =>
  section(
    "pools",
    "Memory that changed",
    "",
    sheet(
      ["pool", "A", "B", "difference"],
      found.pools.map(([name, a, b]) => [
        name,
        bytes(a),
        bytes(b),
        `${b < a ? "−" : "+"}${bytes(Math.abs(b - a))}`,
      ]),
    ),
  );

// A box above a sheet that hides the rows without its words.
function searched(found) {
  const rows = [...found.querySelectorAll("tbody tr")];
  if (rows.length < 12) return found;
  const shown = el("output", { class: "hint" }, `${rows.length} rows`);
  const box = el("input", {
    type: "search",
    placeholder: "filter: op, cause …",
    "aria-label": "filter rows",
    oninput: () => {
      const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        count += !row.hidden;
      }
      shown.textContent = `${count} of ${rows.length} rows`;
    },
  });
  return el("div", {}, el("div", { class: "bar" }, box, shown), found);
}
