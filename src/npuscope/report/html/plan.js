// The plan of an application: steps of a frame on their units, memories over the steps.
function drawPlan() {
  drawSummary();
  if (data.problems.length)
    root.append(
      section("problems", "What does not work", "", el("ul", { class: "cases" }, data.problems.map((text) => el("li", {}, text)))),
    );
  data.frames.forEach((frame, number) =>
    root.append(
      section(`frame-${number}`, `Frame: ${frame.title}`, `${ms(frame.ms)} ms from its first step to its last.`, frameChart(frame)),
    ),
  );
  root.append(
    section(
      "memory",
      "Memory over the frame",
      "Across: steps of a frame. Up: addresses. What lies at the same height is used again.",
      data.memories.filter((memory) => memory.pieces.length).map(memoryChart),
    ),
    section(
      "networks",
      "Networks",
      "",
      table(["network", "ms", "at most", "RAM on chip", "PSRAM", "weights", "of them on chip", "time is"], data.networks, [7]),
    ),
  );
  drawFacts();
  drawMenu();
}

const PLAN_COLOURS = ["core", "software", "read", "hybrid", "write", "control"];
const planColour = (step) => `part-${PLAN_COLOURS[Math.max(0, data.steps.indexOf(step)) % PLAN_COLOURS.length]}`;

// One row a unit; a bar a run.
function frameChart(frame) {
  const units = [...new Set(frame.slots.map((slot) => slot[1]))];
  const height = 26;
  const scale = frame.ms ? 880 / frame.ms : 0;
  const chart = svg("svg", {
    class: "plan-chart",
    viewBox: `0 0 1000 ${units.length * height + 18}`,
    role: "img",
    "aria-label": `steps of the frame ${frame.title}`,
  });
  units.forEach((unit, row) => chart.append(svg("text", { x: 0, y: row * height + 16 }, unit)));
  for (const [step, unit, start, end, run] of frame.slots) {
    const width = Math.max(0.6, (end - start) * scale);
    const x = 100 + start * scale;
    const y = units.indexOf(unit) * height + 2;
    const title = `${step}${run ? ` #${run + 1}` : ""}: ${ms(start)} to ${ms(end)} ms`;
    const bar = svg("rect", { class: planColour(step), x, y, width, height: height - 6 }, svg("title", {}, title));
    chart.append(bar);
    if (width > 60) chart.append(svg("text", { class: "plan-name", x: x + 4, y: y + 14 }, cut(step, Math.floor(width / 8))));
  }
  chart.append(svg("text", { x: 100, y: units.length * height + 14 }, "0"));
  chart.append(svg("text", { x: 980, y: units.length * height + 14, "text-anchor": "end" }, `${ms(frame.ms)} ms`));
  return chart;
}

// Addresses up, steps across; only the part of the memory that something lies in.
function memoryChart(memory) {
  const end = Math.max(...memory.pieces.map(([, offset, size]) => offset + size));
  const height = Math.min(320, 60 + 14 * memory.pieces.length);
  const column = 880 / data.steps.length;
  const scale = (height - 20) / end;
  const chart = svg("svg", { class: "plan-chart", viewBox: `0 0 1000 ${height}`, role: "img", "aria-label": memory.title });
  for (const [name, offset, size, first, last, net, address] of memory.pieces) {
    const x = 100 + first * column;
    const width = (last - first + 1) * column - 2;
    const tall = Math.max(1.5, size * scale - 1);
    const y = height - 18 - (offset + size) * scale;
    const title = `${name}: ${address}, ${bytes(size)}`;
    chart.append(svg("rect", { class: net ? "part-core" : "part-software", x, y, width, height: tall }, svg("title", {}, title)));
    if (tall > 13) chart.append(svg("text", { class: "plan-name", x: x + 4, y: y + 12 }, cut(`${name} ${bytes(size)}`, Math.floor(width / 7))));
  }
  data.steps.forEach((step, place) =>
    chart.append(svg("text", { class: "plan-step", x: 100 + place * column, y: height - 4 }, cut(step, Math.floor(column / 7)))),
  );
  return el("figure", {}, el("figcaption", { class: "caption" }, `${memory.title}: ${bytes(end)} of ${bytes(memory.bytes)} reached`), chart);
}
