// The pages of `fix` (what was edited, and what it gave), of `gate` (what was checked) and of
// `compare --machines` (one network on each).
function drawHead(said) {
  document.title = `${data.title} · npuscope`;
  root.append(head(said));
}

function drawFix() {
  drawHead(data.said);
  root.append(comparedSides(data));
  const notes = data.applied.flatMap((step) => step.notes);
  if (data.applied.length) root.append(appliedSteps());
  if (notes.length)
    root.append(
      section(
        "application",
        "What the application must do now",
        "These fixes change the inputs or outputs of the network.",
        el("ul", { class: "cases" }, notes.map((note) => el("li", {}, note))),
      ),
    );
  if (data.outputs.length)
    root.append(
      section(
        "outputs",
        "Outputs against the original",
        "On seeded inputs, with the reference kernels.",
        table(["output", "largest difference", "equal", "SQNR"], data.outputs, [0]),
      ),
    );
  if (data.refused.length) root.append(refusedSteps());
  drawFacts();
  drawMenu();
}

// Each step begins where the one before it ended.
function appliedSteps() {
  const most = Math.max(...data.applied.map((step) => step.before_ms), 1e-9);
  const steps = data.applied.map((step) =>
    el(
      "li",
      {},
      el("strong", {}, step.title),
      step.places > 1 ? ` at ${step.places} places` : "",
      step.rule ? el("code", {}, ` ${step.rule}`) : null,
      stepBar(step, most),
      el(
        "p",
        { class: "caption" },
        [step.change, step.outputs && `outputs ${step.outputs}`, step.reason]
          .filter(Boolean)
          .join("; "),
      ),
      step.misfits.length
        ? el("p", { class: "caption" }, `not at ${step.misfits.length} more: ${step.misfits[0]}`)
        : null,
    ),
  );
  return section(
    "applied",
    "Applied",
    "In this order. The bar is the time after the step; its end shows what it saved.",
    el("ol", { class: "steps" }, steps),
  );
}

function stepBar(step, most) {
  const after = step.after_ms ?? step.before_ms;
  const kept = Math.min(after, step.before_ms) / most;
  const change = Math.abs(step.before_ms - after) / most;
  return svg(
    "svg",
    {
      class: "step-bar",
      viewBox: "0 0 1000 10",
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `${ms(step.before_ms)} to ${ms(after)} ms`,
    },
    svg("rect", { class: "part-core", x: 0, y: 0, width: 1000 * kept, height: 10 }),
    svg("rect", {
      class: after <= step.before_ms ? "part-read" : "part-software",
      x: 1000 * kept,
      y: 0,
      width: 1000 * change,
      height: 10,
    }),
  );
}

function refusedSteps() {
  const rows = data.refused.map((step) => [step.title, step.rule, step.reason, step.change]);
  return section(
    "refused",
    "Tried and not applied",
    "",
    wrapped(["fix", "rule", "why not", "with it"], rows),
  );
}

// A table of sentences, which may take several lines.
function wrapped(names, rows) {
  const found = table(
    names,
    rows,
    names.map((_, n) => n),
  );
  found.classList.add("wrapped");
  return found;
}

function drawGate() {
  drawHead("");
  const rows = data.checks.map((check) =>
    el(
      "tr",
      {},
      el(
        "td",
        { class: `mark ${check.passed ? "better" : "worse"}` },
        check.passed ? "ok" : check.open ? "not known" : "failed",
      ),
      el("th", { scope: "row" }, check.name),
      el("td", { class: "number" }, check.value),
      el("td", {}, check.limit),
      el("td", { class: "cause-bar" }, check.share === null ? "" : checkBar(check)),
    ),
  );
  root.append(
    section(
      "checks",
      "Checks",
      "The line in the bar is the limit.",
      el("table", { class: "causes" }, el("tbody", {}, rows)),
    ),
  );
  if (data.comparison) root.append(...comparisonParts(data.comparison));
  drawFacts();
  drawMenu();
}

// Up to one and a half times the limit.
function checkBar(check) {
  const share = Math.min(1.5, check.share);
  return svg(
    "svg",
    { viewBox: "0 0 150 12", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", {
      class: check.passed ? "part-read" : "part-software",
      x: 0,
      y: 1,
      width: Math.max(0.5, 100 * share),
      height: 10,
    }),
    svg("line", { class: "limit", x1: 100, x2: 100, y1: 0, y2: 12 }),
  );
}

function drawMachines() {
  drawHead("");
  const most = Math.max(...data.machines.map((row) => row.range?.[1] ?? row.ms ?? 0), 1e-9);
  const timed = data.machines.filter((row) => row.ms !== null);
  const bars = timed.map((row) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, row.cells[0]),
      el("td", { class: "number" }, `${ms(row.ms)} ms`),
      el("td", { class: "cause-bar" }, machineBar(row, most)),
    ),
  );
  if (bars.length)
    root.append(
      section(
        "times",
        "Time of one inference",
        "Predicted. The line is the range, where it is known.",
        el("table", { class: "causes" }, el("tbody", {}, bars)),
      ),
    );
  root.append(
    section(
      "machines",
      "Machines",
      "What each would give, what holds it back, and what would help most.",
      wrapped(
        data.heads,
        data.machines.map((row) => row.cells),
      ),
    ),
  );
  drawFacts();
  drawMenu();
}

function machineBar(row, most) {
  const [low, high] = row.range ?? [null, null];
  const at = (value) => (200 * value) / most;
  return svg(
    "svg",
    { viewBox: "0 0 204 12", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "part-core", x: 0, y: 2, width: Math.max(0.5, at(row.ms)), height: 8 }),
    low === null || high === null
      ? null
      : svg("line", { class: "limit", x1: at(low), x2: at(high), y1: 6, y2: 6 }),
  );
}
