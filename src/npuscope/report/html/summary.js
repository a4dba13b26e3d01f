// The head of the page: the answer, key figures with their source, time by work, assumptions.
function drawSummary() {
  document.title = `${data.title} · npuscope`;
  root.append(head(data.said));
  root.append(el("div", { class: "figures" }, data.figures.map(figure)));
  if (data.time?.length) root.append(timeBar());
}

const figure = (row) =>
  el(
    "div",
    { class: "figure" },
    el("div", { class: "figure-name" }, row.name),
    el("div", { class: "figure-value" }, row.value),
    el("div", { class: "figure-detail" }, row.detail),
    el("div", { class: "figure-source" }, row.source),
  );

// One bar for the whole inference; parts that are too thin keep their entry in the legend.
function timeBar() {
  const classes = ["part-core", "part-control", "part-software", "part-hybrid"];
  let x = 0;
  const bar = svg("svg", {
    class: "time-bar",
    viewBox: "0 0 1000 22",
    preserveAspectRatio: "none",
    role: "img",
    "aria-label": "time by kind of work",
  });
  const legend = el("ul", { class: "legend" });
  data.time.forEach(([name, value], n) => {
    const width = data.total_ms ? (1000 * value) / data.total_ms : 0;
    bar.append(svg("rect", { class: classes[n], x, y: 0, width, height: 22 }));
    x += width;
    legend.append(
      el(
        "li",
        {},
        el("i", { class: classes[n] }),
        `${name} ${ms(value)} ms, ${percent(value, data.total_ms)}`,
      ),
    );
  });
  return el("div", { class: "times" }, bar, legend, sourceChip());
}

function drawFacts() {
  const rows = data.facts.map(([name, value]) =>
    el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, value)),
  );
  const notes = data.notes.map((note) => el("li", {}, note));
  root.append(
    section(
      "facts",
      "Assumptions",
      "All figures above depend on these. Predicted figures are never called measured.",
      el("table", { class: "facts" }, el("tbody", {}, rows)),
      notes.length ? el("ul", { class: "notes" }, notes) : null,
    ),
  );
}

function drawMenu() {
  const sections = [...root.querySelectorAll("section")];
  const links = sections.map((part) =>
    el("a", { href: `#${part.id}` }, part.querySelector("h2").textContent),
  );
  root.querySelector(".top").after(el("nav", { "aria-label": "sections" }, links));
}

// All that is known of the chosen epoch, at hand while other views are looked at.
function drawDetail() {
  const panel = el("aside", { id: "detail", hidden: "", "aria-live": "polite" });
  document.body.append(panel);
  onChoice((index) => {
    panel.hidden = index === null;
    if (index !== null) panel.replaceChildren(...detail(index));
  });
}

function detail(index) {
  const epoch = epochs[index];
  const rows = [
    ["from", epoch.origin.join(", ")],
    ["module", (data.modules?.[index] || []).join(" / ")],
    ["reads", neighbours(index, 1, 0)],
    ["read by", neighbours(index, 0, 1)],
    ["ops", counted(epoch.ops)],
    ["time", `${ms(epoch.ms)} ms, ${percent(epoch.ms, data.total_ms)} of all (${epoch.source})`],
    ["pre, core, post", epoch.phases.map((part) => ms(part)).join(", ") + " ms"],
    ["predicted", epoch.predicted_ms === null ? "" : `${ms(epoch.predicted_ms)} ms`],
    [
      "spread",
      epoch.spread
        ? `${ms(epoch.spread[0])} to ${ms(epoch.spread[1])} ms in ${epoch.spread[2]} runs`
        : "",
    ],
    ["bound by", epoch.bound === "unknown" ? "" : epoch.bound],
    [
      "compiler",
      epoch.max_cycles === null
        ? ""
        : `${whole(epoch.max_cycles)} cycles, ${whole(epoch.compute_cycles)} if nothing stalls`,
    ],
    ["NPU core", `${whole(epoch.core_cycles)} cycles`],
    [
      "units",
      Object.entries(epoch.units)
        .map(([name, n]) => `${n} ${name}`)
        .join(", "),
    ],
    [
      "memory",
      epoch.traffic
        .map(
          ([pool, read, write]) =>
            `${data.pools[pool]} ${bytes(read)} read, ${bytes(write)} written`,
        )
        .join("; "),
    ],
    ["writes", buffersWhere((first) => first === index)],
    ["last to read", buffersWhere((_, last) => last === index)],
    ["alive", aliveAt(index)],
    ["blob", epoch.blob === null ? "" : `${epoch.blob}`],
  ].filter(([, value]) => value && value.length);
  const found = data.findings.filter((finding) => epochOf(finding) === index);
  return [
    el(
      "button",
      { type: "button", class: "close", "aria-label": "close", onclick: () => choose(index) },
      "×",
    ),
    el(
      "h3",
      {},
      el("i", { class: `swatch ${kindClass(epoch)}` }),
      `Epoch ${label(epoch)} · ${epoch.kind}`,
    ),
    el(
      "table",
      { class: "facts" },
      el(
        "tbody",
        {},
        rows.map(([name, value]) =>
          el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, value)),
        ),
      ),
    ),
    ...found.map((finding) =>
      el("p", { class: `severity-${finding.severity}` }, `${finding.rule}: ${finding.title}`),
    ),
    el(
      "p",
      { class: "jumps" },
      "show in: ",
      JUMPS.filter(([id]) => document.getElementById(id)).map(([id, name]) =>
        el("a", { href: `#${id}` }, name),
      ),
      el("span", { class: "hint" }, "keys: j next, k previous, Esc none"),
    ),
  ];
}

const activations = () => (data.memory?.buffers || []).filter(([, , , , isWeights]) => !isWeights);

const buffersWhere = (fits) =>
  activations()
    .filter(([, first, last]) => fits(first, last))
    .map(([name, , , size, , shape]) => `${name}${shape ? ` ${shape}` : ""} (${bytes(size)})`)
    .join("; ");

function aliveAt(index) {
  const alive = activations().filter(([, first, last]) => first <= index && index <= last);
  const size = alive.reduce((sum, buffer) => sum + buffer[3], 0);
  return alive.length ? `${alive.length === 1 ? "1 buffer" : `${alive.length} buffers`}, ${bytes(size)}` : "";
}

const JUMPS = [
  ["graph", "graph"],
  ["epochs", "table"],
  ["timeline", "timeline"],
  ["memory", "memory"],
];

// The epochs at the other end of its lines, as a way along the graph.
function neighbours(index, here, there) {
  const others = (data.edges || []).filter((edge) => edge[here] === index).map((edge) => edge[there]);
  return [...new Set(others)].map((other) =>
    el(
      "button",
      { type: "button", class: "link", title: counted(epochs[other].ops), onclick: () => choose(other, "detail") },
      label(epochs[other]),
    ),
  );
}
