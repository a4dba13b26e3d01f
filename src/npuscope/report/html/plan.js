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
      table(["network", "ms", "at most", "RAM on chip", "PSRAM", "weights", "room for them on chip", "time is"], data.networks, [7]),
    ),
  );
  drawFacts();
  drawMenu();
}

const PLAN_COLOURS = ["core", "software", "read", "hybrid", "write", "control"];
const planColour = (step) => `part-${PLAN_COLOURS[Math.max(0, data.steps.indexOf(step)) % PLAN_COLOURS.length]}`;

// Left of the bars; names of units and of steps are drawn in pixels, so they stay readable on a phone.
const PLAN_GUTTER = 64;

function planChart(label, height, parts) {
  const chart = svg("svg", { class: "plan-chart", height, role: "img", "aria-label": label });
  axis.views.push(() => {
    const width = Math.max(PLAN_GUTTER + 100, chart.clientWidth);
    chart.setAttribute("viewBox", `0 0 ${width} ${height}`);
    chart.replaceChildren(...parts(width - PLAN_GUTTER));
  });
  return chart;
}

const planText = (kind, x, y, text, room) =>
  svg("text", { class: kind, x, y }, fitted(text, room), svg("title", {}, text));

// One row per unit, one bar per run.
function frameChart(frame) {
  const units = [...new Set(frame.slots.map((slot) => slot[1]))];
  const row = 26;
  const bottom = units.length * row;
  return planChart(`steps of the frame ${frame.title}`, bottom + 18, (room) => {
    const scale = frame.ms ? room / frame.ms : 0;
    const names = units.map((unit, place) => planText("", 0, place * row + 16, unit, PLAN_GUTTER));
    const bars = frame.slots.flatMap(([step, unit, start, end, run]) => {
      const width = Math.max(0.6, (end - start) * scale);
      const x = PLAN_GUTTER + start * scale;
      const y = units.indexOf(unit) * row + 2;
      const title = `${step}${run ? ` #${run + 1}` : ""}: ${ms(start)} to ${ms(end)} ms`;
      const bar = svg("rect", { class: planColour(step), x, y, width, height: row - 6 }, svg("title", {}, title));
      return width > 40 ? [bar, planText("plan-name", x + 4, y + 14, step, width - 4)] : [bar];
    });
    const last = svg("text", { x: PLAN_GUTTER + room, y: bottom + 14, "text-anchor": "end" }, `${ms(frame.ms)} ms`);
    return [...names, ...bars, svg("text", { x: PLAN_GUTTER, y: bottom + 14 }, "0"), last];
  });
}

// Addresses up, steps across; only the part of the memory that something lies in.
function memoryChart(memory) {
  const end = Math.max(...memory.pieces.map(([, offset, size]) => offset + size));
  const height = Math.min(320, 60 + 14 * memory.pieces.length);
  const scale = (height - 20) / end;
  const chart = planChart(memory.title, height, (room) => {
    const column = room / data.steps.length;
    const pieces = memory.pieces.flatMap(([name, offset, size, first, last, net, address]) => {
      const x = PLAN_GUTTER + first * column;
      const width = (last - first + 1) * column - 2;
      const tall = Math.max(1.5, size * scale - 1);
      const y = height - 18 - (offset + size) * scale;
      const title = `${name}: ${address}, ${bytes(size)}`;
      const box = svg("rect", { class: net ? "part-core" : "part-software", x, y, width, height: tall }, svg("title", {}, title));
      return tall > 13 ? [box, planText("plan-name", x + 4, y + 12, `${name} ${bytes(size)}`, width - 4)] : [box];
    });
    const steps = data.steps.map((step, place) =>
      planText("plan-step", PLAN_GUTTER + place * column, height - 4, step, column - 3),
    );
    return [...pieces, ...steps];
  });
  return el("figure", {}, el("figcaption", { class: "caption" }, `${memory.title}: ${bytes(end)} of ${bytes(memory.bytes)} reached`), chart);
}
