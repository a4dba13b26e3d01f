// Findings by rule, the one that pays most first; each leads to its epoch.
function drawFindings() {
  if (!data.explained) return;
  const groups = new Map();
  for (const finding of data.findings) {
    const cause = causeOf(finding);
    if (!groups.has(cause)) groups.set(cause, []);
    groups.get(cause).push(finding);
  }
  const caption = data.findings.length
    ? "What to change, by rule. Savings are predicted, by recompiling or from the timing model, with its error."
    : "No findings.";
  const more = data.more_findings
    ? el(
        "p",
        { class: "caption" },
        `${data.more_findings} more are left out here; npuscope explain --json lists all.`,
      )
    : null;
  root.append(section("findings", "Findings", caption, [...groups.values()].map(ruleGroup), more));
}

// A rule, and the op where the rule is about ops of any kind.
const causeOf = (finding) => `${finding.rule} ${finding.op}`;

// Its fixes, each with what it saves at all its places.
const fixesOf = (finding) => data.causes[causeOf(finding)];

// Where a finding is seen: its epoch, or the first epoch that runs its op.
function epochOf(finding) {
  if (finding.epoch !== null) return indexOfNumber(finding.epoch);
  return epochs.findIndex((epoch) => epoch.origin.some((name) => finding.ops.includes(name)));
}

const OPENED = 3; // groups that show their cases from the start: the timeline should not be far

// Rules that the reader opened or closed, so that they stay so when the page is drawn again.
const toggled = new Map();

function ruleGroup(findings, place) {
  const first = findings[0];
  const summary = el(
    "summary",
    {},
    el("span", { class: `mark severity-${first.severity}` }, first.severity),
    el("strong", {}, first.op ? `${first.title}: ${first.op}` : first.title),
    " ",
    el("code", {}, first.rule),
    " ",
    el(
      "span",
      { class: "caption" },
      groupText(findings),
    ),
  );
  const box = el("details", { class: "rule" }, summary, el("p", {}, first.cause));
  // Bodies of closed groups are made when they are opened: a large network has hundreds.
  const fill = () => {
    if (box.dataset.filled) return;
    box.dataset.filled = "1";
    box.append(...ruleBody(findings));
  };
  box.addEventListener("toggle", () => {
    toggled.set(causeOf(first), box.open);
    if (box.open) fill();
  });
  const usual = place < OPENED && findings.length <= 8;
  if (toggled.get(causeOf(first)) ?? usual) {
    box.setAttribute("open", "");
    fill();
  }
  return box;
}

// How often, what it takes now, and what a change would save.
function groupText(findings) {
  const { gain, bound } = fixesOf(findings[0]);
  const cost = findings.reduce((sum, finding) => sum + (finding.cost || 0), 0);
  const figures = [
    findings.length === 1 ? "once" : `${findings.length} times`,
    cost >= 0.0005 ? `takes ${ms(cost)} ms (${percent(cost, data.total_ms)})` : "",
    gain >= 0.0005 ? `a change saves ${bound ? "at most " : ""}${ms(gain)} ms` : "",
  ].filter(Boolean);
  // How sure the rule is says nothing about the saving: it stands apart.
  return `${figures.join(", ")} · ${findings[0].confidence} rule`;
}

// The advice stands once, with its gain at all places together.
const ruleBody = (findings) => [
  fixList(fixesOf(findings[0]).fixes),
  el("ul", { class: "cases short" }, findings.map(findingCase)),
];

const fixList = (fixes) =>
  el(
    "ul",
    { class: "fixes" },
    fixes.map(([text, automatic, training]) =>
      el(
        "li",
        {},
        `${text}${automatic ? " · npuscope fix can do it" : ""}`,
        training ? el("div", { class: "caption" }, training) : null,
      ),
    ),
  );

// The rest is in the tip.
function someOps({ ops, more_ops }) {
  const count = ops.length + more_ops;
  return count > 5 ? `${ops.slice(0, 4).join(", ")} and ${count - 4} more` : ops.join(", ");
}

function findingCase(finding) {
  const index = epochOf(finding);
  return el(
    "li",
    {},
    index < 0
      ? null
      : el(
          "button",
          {
            type: "button",
            class: "link to-epoch",
            "data-index": index,
            onclick: () => choose(index, "finding"),
          },
          `epoch ${label(epochs[index])}`,
        ),
    " ",
    el("span", { title: finding.ops.join(", ") }, someOps(finding)),
    finding.evidence ? el("span", { class: "caption" }, ` ${finding.evidence}`) : null,
  );
}
