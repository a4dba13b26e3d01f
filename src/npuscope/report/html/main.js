// Draws the view that the data is made for, top to bottom.
function drawProfile() {
  drawSummary();
  drawFindings();
  drawShares();
  drawTimeline();
  drawMemory();
  drawSeries();
  drawRoofline();
  drawCompared();
  drawGraph();
  drawTable();
  drawFacts();
  drawDetail();
  drawMenu();
}

// Everything again with other data; what the reader chose, opened and zoomed stays where it can.
function drawAgain(found, draw) {
  const before = { epochs, choice: chosen.index };
  const same = before.epochs.length === found.epochs.length;
  root.style.minHeight = `${root.offsetHeight}px`; // the page must not jump while it is empty
  forgetPlots();
  document.getElementById("detail")?.remove();
  hideTip();
  Object.assign(chosen, { index: null, listeners: [] });
  axis.views = [];
  data = found;
  epochs = found.epochs;
  measureEpochs();
  Object.assign(narrowed, { name: "", indices: null });
  if (!same) Object.assign(axis, { mode: usualMode(), from: 0, to: 1 });
  root.replaceChildren();
  draw();
  redraw();
  root.style.minHeight = "";
  const was = before.choice === null ? null : before.epochs[before.choice];
  const now = was && epochs.findIndex((one) => one.origin.join() === was.origin.join());
  if (was && now >= 0) choose(now, "finding");
}

// The chosen epoch is in the address, so that a link can point to it.
function followAddress() {
  const named = /^#epoch-(\d+)$/.exec(location.hash);
  const index = named ? indexOfNumber(Number(named[1])) : -1;
  if (index >= 0) choose(index, "finding");
  onChoice((chosenIndex) => {
    if (location.protocol === "about:") return; // inside of another page
    const hash = chosenIndex === null ? "" : `#epoch-${epochs[chosenIndex].first}`;
    history.replaceState(null, "", location.pathname + location.search + hash);
  });
}

const VIEWS = {
  profile: drawProfile,
  opstats: drawOpstats,
  sweep: drawSweep,
  compare: drawComparison,
  machines: drawMachines,
  fix: drawFix,
  gate: drawGate,
  accuracy: drawAccuracy,
  choices: drawChoices,
  plan: drawPlan,
  live: drawLive,
};
VIEWS[data.view]();
redraw();
if (data.view === "profile") followAddress();
document.addEventListener("keydown", (event) => {
  if (!epochs.length || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea")) return;
  const step = { j: 1, k: -1 }[event.key];
  if (event.key === "Escape" && chosen.index !== null) choose(chosen.index);
  else if (step) choose(Math.max(0, Math.min(epochs.length - 1, (chosen.index ?? -1) + step)), "finding");
});

let pending = 0;
window.addEventListener("resize", () => {
  cancelAnimationFrame(pending);
  pending = requestAnimationFrame(redraw);
});
window.addEventListener("beforeprint", () => zoom(0, 1));
document.body.dataset.ready = "1";
