// Epochs together, by what they compute, what limits them, or their module; a row narrows the table.
const GROUPINGS = {
  "what they compute": (epoch) =>
    [...new Set(epoch.ops)].join(" + ") || (epoch.origin[0] || "not known").split(":")[0],
  "what limits them": (epoch) => (epoch.bound === "unknown" ? "not known" : epoch.bound),
  "their module": (epoch, index) => (data.modules?.[index] || []).slice(0, 2).join(" / ") || "none",
};
const MOST_SHARES = 10;
let grouping = "what they compute";
// The epochs of the row that was pressed; the table shows no others.
const narrowed = { name: "", indices: null, show: () => {} };

function groupsOf(key) {
  const groups = new Map();
  epochs.forEach((epoch, index) => {
    const name = key(epoch, index);
    if (!groups.has(name)) groups.set(name, { name, indices: [], ms: 0 });
    const group = groups.get(name);
    group.indices.push(index);
    group.ms += epoch.ms;
  });
  const sorted = [...groups.values()].sort((a, b) => b.ms - a.ms);
  if (sorted.length <= MOST_SHARES + 1) return sorted;
  const rest = sorted.slice(MOST_SHARES);
  return [
    ...sorted.slice(0, MOST_SHARES),
    {
      name: `${rest.length} others`,
      indices: rest.flatMap((group) => group.indices),
      ms: rest.reduce((sum, group) => sum + group.ms, 0),
    },
  ];
}

function drawShares() {
  const useful = Object.keys(GROUPINGS).filter(
    (name) => new Set(epochs.map(GROUPINGS[name])).size > 1,
  );
  if (!useful.length) return;
  if (!useful.includes(grouping)) grouping = useful[0];
  const body = el("tbody", {});
  const choice = el(
    "select",
    {
      id: "grouping",
      "aria-label": "epochs by",
      onchange: () => {
        grouping = choice.value;
        fill();
      },
    },
    useful.map((name) => el("option", { value: name }, name)),
  );
  choice.value = grouping;
  const heads = ["", "epochs", "ms", "share", "", "sum", "slowest"];
  root.append(
    section(
      "shares",
      "Where the time goes",
      "Epochs together. A row leaves only its epochs in the table of epochs.",
      el("div", { class: "bar" }, el("label", {}, "by ", choice), sourceChip()),
      el(
        "div",
        { class: "scroller table" },
        el(
          "table",
          { id: "shares-table" },
          el("thead", {}, el("tr", {}, heads.map((name) => el("th", { scope: "col" }, name)))),
          body,
        ),
      ),
    ),
  );

  function fill() {
    const groups = groupsOf(GROUPINGS[grouping]);
    const all = groups.reduce((sum, group) => sum + group.ms, 0);
    let before = 0;
    body.replaceChildren(
      ...groups.map((group) => {
        before += group.ms;
        return shareRow(group, groups[0].ms, all, before);
      }),
    );
  }
  fill();
}

function shareRow(group, most, all, before) {
  const slowest = group.indices.reduce((a, b) => (epochs[b].ms > epochs[a].ms ? b : a));
  const bar = svg(
    "svg",
    { class: "share-bar", viewBox: "0 0 100 12", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", {
      class: KIND_PART[epochs[slowest].kind] || "part-core",
      y: 1,
      width: Math.max(0.5, (100 * group.ms) / (most || 1)),
      height: 10,
    }),
  );
  const number = (text) => el("td", { class: "number" }, text);
  return el(
    "tr",
    {},
    el(
      "th",
      { scope: "row", title: group.name },
      el("button", { type: "button", class: "link", onclick: () => narrow(group) }, group.name),
    ),
    number(`${group.indices.length}`),
    number(ms(group.ms)),
    number(percent(group.ms, all)),
    el("td", { class: "share-cell" }, bar),
    number(percent(before, all)),
    el(
      "td",
      { class: "number" },
      el(
        "button",
        { type: "button", class: "link", onclick: () => choose(slowest, "finding") },
        label(epochs[slowest]),
      ),
    ),
  );
}

function narrow(group) {
  Object.assign(narrowed, { name: group ? group.name : "", indices: group && new Set(group.indices) });
  narrowed.show();
  if (group) document.getElementById("epochs").scrollIntoView();
}
