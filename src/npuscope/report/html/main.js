// Draws the view that the data is made for, top to bottom.
function drawProfile() {
  drawSummary();
  drawTimeline();
  drawMemory();
  drawSeries();
  drawRoofline();
  drawCompared();
  drawFindings();
  drawGraph();
  drawTable();
  drawFacts();
  drawDetail();
  drawMenu();
}

const VIEWS = { profile: drawProfile, opstats: drawOpstats, sweep: drawSweep };
VIEWS[data.view]();
redraw();

let pending = 0;
window.addEventListener("resize", () => {
  cancelAnimationFrame(pending);
  pending = requestAnimationFrame(redraw);
});
window.addEventListener("beforeprint", () => zoom(0, 1));
document.body.dataset.ready = "1";
