// A sweep: all runs as a cloud of points, best runs, fronts of models, failures.
function drawSweep() {
  drawSummary();
  drawCloud();
  const best = ["model", "ms", "range, ms", "internal RAM", "external RAM", "weights", "with"];
  const parts = [
    section("best", "Best run of every model", "The fastest first.", table(best, data.best, [6])),
    section(
      "fronts",
      "Fronts by model",
      "Runs that no other run of the same model beats in both; the smallest RAM first.",
      table(["model", "ms", "internal RAM", "external RAM", "with"], data.fronts, [4]),
    ),
    section(
      "configurations",
      "Configurations",
      "The last column is the mean latency against the best run of the same model.",
      sheet(["configuration", "done", "failed", "to best"], data.configurations.map(texts)),
    ),
  ];
  // A model with one run on its front stands in the table of best runs already.
  root.append(...parts.filter((part) => part.id !== "fronts" || data.fronts.length));
  if (data.failures.length) {
    const names = ["model", "with", "message", "hint"];
    const rows = table(names, data.failures, [1, 2, 3]);
    root.append(section("failures", "Failed runs", "", rows));
  }
  drawFacts();
  drawMenu();
}

const texts = (cells) => cells.map((cell) => `${cell}`);

// A sheet with further columns of text, which is read from the left.
function table(names, rows, columns) {
  const found = sheet(names, rows);
  for (const column of columns)
    for (const cell of found.querySelectorAll(`td:nth-child(${column + 1})`)) cell.className = "text";
  return found;
}
