// The live view: a panel to choose with, and the report drawn again for every choice. All that a
// tab knows is in its address, so that tabs do not disturb each other and a reload changes nothing.
const app = data;
const live = { setting: null, kept: null, answer: null, asked: 0, timer: 0, address: null };
const STATE = "s";

function drawLive() {
  document.title = "npuscope";
  document.body.classList.add("live");
  takeAddress();
  window.addEventListener("popstate", back);
  document.body.prepend(el("aside", { id: "panel", "aria-label": "settings" }));
  drawPanel();
  update();
}

function remembered() {
  try {
    return JSON.parse(new URLSearchParams(location.search).get(STATE)) || {};
  } catch {
    return {};
  }
}

function takeAddress() {
  const told = remembered();
  live.setting = { ...app.first, ...told.setting };
  live.kept = told.kept ?? null;
}

const addressText = () => JSON.stringify({ setting: live.setting, kept: live.kept });

// Every change is a step that the browser's buttons lead back from.
function remember() {
  const text = addressText();
  if (text === live.address) return;
  const step = live.address === null ? "replaceState" : "pushState";
  live.address = text;
  history[step](null, "", `?${STATE}=${encodeURIComponent(text)}${location.hash}`);
}

function back() {
  takeAddress();
  if (addressText() === live.address) return; // a jump inside of the page
  live.address = addressText();
  document.activeElement?.blur(); // a box keeps what is typed in it
  clearTimeout(live.timer);
  update();
}

async function ask(question, body) {
  const answer = await fetch(question, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(await answer.text());
  const found = await answer.json();
  if (found.error) throw found.error;
  return found;
}

// Another setting; typing waits a moment, so that not every digit is a question.
function change(part, wait = 0) {
  live.setting = { ...live.setting, ...part };
  clearTimeout(live.timer);
  live.timer = setTimeout(update, wait);
}

async function update() {
  const number = (live.asked += 1);
  const start = performance.now();
  remember();
  busy(true);
  try {
    const compared = live.kept ? ask("compare", [live.kept, live.setting]) : null;
    const [answer, pair] = await Promise.all([ask("report", live.setting), compared]);
    if (number !== live.asked) return; // a later choice has been made meanwhile
    live.answer = answer;
    drawAgain(answer.report, () => drawLiveReport(pair));
    drawPanel();
    say(`updated in ${Math.round(performance.now() - start)} ms`);
    document.body.dataset.took = String(performance.now() - start);
    document.body.dataset.updates = String(Number(document.body.dataset.updates || 0) + 1);
  } catch (error) {
    if (number !== live.asked) return;
    complain(error);
    document.body.dataset.failed = String(Number(document.body.dataset.failed || 0) + 1);
  } finally {
    if (number === live.asked) busy(false);
  }
}

function drawLiveReport(pair) {
  drawProfile();
  if (!pair) return;
  const parts = comparisonParts(pair);
  root.querySelector(".figures").before(
    el("p", { class: "answer compared" }, pair.answer),
    ...parts,
  );
  root.querySelector("nav").remove();
  drawMenu();
}

// --- What is going on ---

const busy = (on) => document.body.classList.toggle("busy", on);
const state = () => document.getElementById("state");

function say(text) {
  state().className = "hint";
  state().replaceChildren(text);
}

function complain(error) {
  const where = error.where ? `${error.where}: ` : "";
  state().className = "complaint";
  state().replaceChildren(
    el("p", {}, `${where}${error.message || "the server does not answer: is it still running?"}`),
    ...(error.hint ? [el("p", { class: "hint" }, error.hint)] : []),
    ...(live.answer ? [] : [el("button", { type: "button", id: "anew", onclick: anew }, "start anew")]),
  );
}

// Out of an address that gives no report: nothing of the panel is there to change.
function anew() {
  live.kept = null;
  change({ ...app.first });
}

// --- The panel ---

// Drawn again after every answer; the box that is being typed in keeps its place and its text.
function drawPanel() {
  const panel = document.getElementById("panel");
  const focus = document.activeElement?.id;
  const typed = focus && panel.contains(document.activeElement) ? document.activeElement.value : "";
  const open = new Set([...panel.querySelectorAll("details[open]")].map((box) => box.id));
  const place = panel.scrollTop;
  panel.replaceChildren(
    el("p", { class: "brand" }, `npuscope ${app.version}`),
    settingsButton(panel),
    el("div", { id: "state", class: "hint", role: "status" }, "working …"),
    el("div", { id: "settings" }, panelParts()),
  );
  for (const id of open) panel.querySelector(`#${CSS.escape(id)}`)?.setAttribute("open", "");
  panel.scrollTop = place;
  const box = focus && document.getElementById(focus);
  if (!box || !panel.contains(box)) return;
  if (box.type !== "checkbox" && typed) box.value = typed;
  box.focus();
}

// On a small screen the panel is a bar below the report, and opens over it.
function settingsButton(panel) {
  const button = el("button", { type: "button", id: "settings-button", "aria-controls": "settings" });
  const show = (open) => {
    panel.classList.toggle("open", open);
    button.setAttribute("aria-expanded", String(open));
    button.textContent = open ? "close" : "settings";
  };
  button.addEventListener("click", () => show(!panel.classList.contains("open")));
  show(panel.classList.contains("open"));
  return button;
}

function panelParts() {
  if (!live.answer) return [modelPart()];
  return [
    modelPart(),
    machinePart(),
    fixPart(),
    whatIfPart(),
    poolPart(),
    comparePart(),
    commandPart(),
  ].filter(Boolean);
}
