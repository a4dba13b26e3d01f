// All epochs as a table, the longest first: sortable by any column, filtered by text and kind. The
// order stays when the page is drawn again.
let order = { name: "ms", up: false };

function tableColumns() {
  const moved = (epoch) => epoch.traffic.reduce((sum, [, read, write]) => sum + read + write, 0);
  const columns = [
    ["epoch", "number", (e) => e.first + 1, (e) => label(e)],
    ["kind", "text", (e) => e.kind],
    ["ms", "number", (e) => e.ms, (e) => ms(e.ms)],
    ["share", "number", (e) => e.ms, (e) => percent(e.ms, data.total_ms)],
    ["pre", "number", (e) => e.phases[0], (e) => ms(e.phases[0])],
    ["core", "number", (e) => e.phases[1], (e) => ms(e.phases[1])],
    ["post", "number", (e) => e.phases[2], (e) => ms(e.phases[2])],
    ["bound by", "text", (e) => (e.bound === "unknown" ? "" : e.bound)],
    [
      "op/cycle",
      "number",
      (e) => (e.operations && e.core_cycles && e.kind === "HW" ? e.operations / e.core_cycles : -1),
      (e) =>
        e.operations && e.core_cycles && e.kind === "HW"
          ? (e.operations / e.core_cycles).toFixed(1)
          : "",
    ],
    [
      "max cycles",
      "number",
      (e) => e.max_cycles,
      (e) => (e.max_cycles === null ? "" : whole(e.max_cycles)),
    ],
    ["moved", "number", moved, (e) => (moved(e) ? bytes(moved(e)) : "")],
    ["findings", "number", (e) => e.found, (e) => (e.found ? `${e.found}` : "")],
    ["ops", "text", (e) => counted(e.ops)],
    ["from", "text", (e) => e.origin.join(", ")],
    ["source", "text", (e) => e.source],
  ];
  if (data.measured)
    columns.splice(4, 0, [
      "predicted",
      "number",
      (e) => e.predicted_ms || 0,
      (e) => (e.predicted_ms === null ? "" : ms(e.predicted_ms)),
    ]);
  // What no epoch has needs no column.
  const has = ([, type, key]) => (epoch) => (type === "number" ? key(epoch) > 0 : key(epoch) !== "");
  return columns.filter((column) => !epochs.length || epochs.some(has(column)));
}

function tableCaption(names) {
  return [
    "The longest first; a heading sorts by its column. Times in milliseconds.",
    data.overlaps ? "Layers run beside each other: their times add up to more than the inference." : "",
    names.includes("pre") ? "pre and post are work of the CPU around an epoch." : "",
    names.includes("max cycles") ? "Max cycles are the compiler's own estimate." : "",
    "A row leads to its place in every other view.",
  ].join(" ");
}

function drawTable() {
  for (const epoch of epochs) epoch.found = 0;
  for (const finding of data.findings) {
    const index = epochOf(finding);
    if (index >= 0) epochs[index].found += 1;
  }
  const columns = tableColumns();
  const rows = epochs.map((epoch, index) => tableRow(epoch, index, columns));
  const body = el("tbody", {}, rows);
  const heads = columns.map(([name, type], n) =>
    el(
      "th",
      { scope: "col", class: type, "aria-sort": "none" },
      el("button", { type: "button", onclick: () => press(n) }, name),
    ),
  );
  const shown = el("output", { class: "hint" });
  const text = el("input", {
    type: "search",
    id: "filter",
    placeholder: "filter: op, layer, bound …",
    "aria-label": "filter epochs",
    oninput: () => filter(),
  });
  const only = el("button", { type: "button", id: "only", title: "show all epochs", onclick: () => narrow(null) });
  const kinds = ["all kinds", ...new Set(epochs.map((epoch) => epoch.kind))];
  const kind = el(
    "select",
    { id: "filter-kind", "aria-label": "kind", onchange: () => filter() },
    kinds.map((name) => el("option", { value: name }, name)),
  );
  root.append(
    section(
      "epochs",
      "Epochs",
      tableCaption(columns.map(([name]) => name)),
      el(
        "div",
        { class: "bar" },
        text,
        kind,
        only,
        shown,
        el("button", { type: "button", id: "save", title: "the epochs shown, as a file", onclick: () => save() }, "CSV"),
        sourceChip(),
      ),
      el(
        "div",
        { class: "scroller table" },
        el("table", { id: "epoch-table" }, el("thead", {}, el("tr", {}, heads)), body),
      ),
    ),
  );

  function press(n) {
    const numeric = columns[n][1] === "number";
    const name = columns[n][0];
    order = { name, up: order.name === name ? !order.up : !numeric || n === 0 };
    sort();
  }

  function sort() {
    const n = Math.max(0, columns.findIndex(([name]) => name === order.name));
    const numeric = columns[n][1] === "number";
    const key = columns[n][2];
    const compare = numeric
      ? (a, b) => key(epochs[a]) - key(epochs[b])
      : (a, b) => String(key(epochs[a])).localeCompare(String(key(epochs[b])));
    const sorted = epochs
      .map((_, index) => index)
      .sort((a, b) => (order.up ? compare(a, b) : compare(b, a)) || a - b);
    heads.forEach((head, m) =>
      head.setAttribute("aria-sort", m === n ? (order.up ? "ascending" : "descending") : "none"),
    );
    body.append(...sorted.map((index) => rows[index]));
  }

  function filter() {
    const words = text.value
      .toLowerCase()
      .split(/\s+/)
      .filter((word) => word);
    let count = 0;
    rows.forEach((row, index) => {
      const epoch = epochs[index];
      const fits =
        (kind.value === "all kinds" || epoch.kind === kind.value) &&
        (!narrowed.indices || narrowed.indices.has(index)) &&
        words.every((word) => searchText(epoch).includes(word));
      row.hidden = !fits;
      count += fits;
    });
    shown.textContent = `${count} of ${epochs.length} epochs`;
    only.hidden = !narrowed.indices;
    only.textContent = `only ${cut(narrowed.name, 40)} ×`;
  }
  narrowed.show = filter;

  // What the table shows, in its order, with all digits.
  function save() {
    const order = [...body.children].filter((row) => !row.hidden).map((row) => epochs[row.dataset.index]);
    const lines = order.map((epoch) => columns.map((column) => csvCell(csvValue(column, epoch))).join(","));
    saveFile(`${data.title}.epochs.csv`, [columns.map(([name]) => name).join(","), ...lines].join("\r\n") + "\r\n");
  }

  sort();
  filter();
  body.addEventListener("click", (event) => {
    const row = event.target.closest("tr");
    if (row) choose(Number(row.dataset.index), "table");
  });
  onChoice((index, origin) => {
    rows.forEach((row, n) => row.classList.toggle("row-chosen", n === index));
    if (index !== null && origin !== "table") scrollToRow(rows[index]);
  });
}

// A share is a share, and an epoch its name; other numbers are what the column is sorted by.
function csvValue([name, type, key, text], epoch) {
  if (name === "share") return data.total_ms ? epoch.ms / data.total_ms : "";
  if (name === "epoch" || type === "text") return (text || key)(epoch);
  return (text || key)(epoch) === "" ? "" : key(epoch);
}

// A foreign name that no spreadsheet takes for a formula.
function csvCell(value) {
  const text = typeof value === "string" && /^\s*[=+\-@|]/.test(value) ? `'${value}` : `${value}`;
  return /[",\r\n;\t]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function saveFile(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  el("a", { href: address, download: name.replace(/[^\w.-]+/g, "_") }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

// Inside its box alone: the page stays where the reader looks.
function scrollToRow(row) {
  const box = row.closest(".scroller");
  box.scrollTop = row.offsetTop - (box.clientHeight - row.offsetHeight) / 2;
}

function searchText(epoch) {
  epoch.words =
    epoch.words ||
    [label(epoch), epoch.kind, epoch.bound, ...epoch.ops, ...epoch.origin].join(" ").toLowerCase();
  return epoch.words;
}

function tableRow(epoch, index, columns) {
  const cells = columns.map(([name, type, key, text]) => {
    const shown = (text || key)(epoch);
    return el(
      "td",
      {
        class: name === "kind" ? `kind ${kindClass(epoch)}` : type,
        title: shown.length > 28 ? shown : null,
      },
      shown,
    );
  });
  return el("tr", { "data-index": index }, cells);
}
