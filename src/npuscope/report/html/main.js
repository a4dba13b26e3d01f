// Draws the view that the data is made for, top to bottom.
function drawProfile() {
  drawSummary();
  drawFindings();
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
  if (!same) Object.assign(axis, { mode: usualMode(), from: 0, to: 1 });
  root.replaceChildren();
  draw();
  redraw();
  root.style.minHeight = "";
  const was = before.choice === null ? null : before.epochs[before.choice];
  const now = was && epochs.findIndex((one) => one.origin.join() === was.origin.join());
  if (was && now >= 0) choose(now, "finding");
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

let pending = 0;
window.addEventListener("resize", () => {
  cancelAnimationFrame(pending);
  pending = requestAnimationFrame(redraw);
});
window.addEventListener("beforeprint", () => zoom(0, 1));
document.body.dataset.ready = "1";
