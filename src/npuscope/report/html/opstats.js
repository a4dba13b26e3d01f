// Stats buffers of a many-core machine: who was busy when, and the longest ops.
function drawOpstats() {
  drawSummary();
  drawAdvice();
  drawFindings();
  drawCoreRoofline();
  drawNodes();
  drawVtcm();
  for (const [n, buffer] of data.buffers.entries()) drawBuffer(buffer, n);
  root.append(
    section(
      "ops",
      "Ops, the longest first",
      "All buffers and cores together.",
      sheet(
        ["op", "count", "µs", "share", "output"],
        data.ops.map((row) => [
          row.details,
          whole(row.count),
          row.us.toFixed(1),
          percent(row.us, data.ops_us),
          row.out_bytes === null ? "" : bytes(row.out_bytes),
        ]),
      ),
    ),
  );
  drawFacts();
  drawMenu();
}

const sheet = (names, rows) =>
  el(
    "div",
    { class: "scroller table" },
    el(
      "table",
      { class: "sheet" },
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          names.map((name) => el("th", { scope: "col" }, name)),
        ),
      ),
      el(
        "tbody",
        {},
        rows.map((cells) =>
          el(
            "tr",
            {},
            cells.map((cell, n) =>
              el("td", { class: n ? "number" : "text", title: cell.length > 40 ? cell : null }, cell),
            ),
          ),
        ),
      ),
    ),
  );

// Every thread as a bar from start to end; its filled part is the time in ops, then in waits.
function drawBuffer(buffer, n) {
  const height = buffer.threads.length * 15;
  const plot = svg("svg", {
    class: "plot",
    height: height + 20,
    role: "img",
    "aria-label": "threads over time",
  });
  root.append(
    section(
      `buffer-${n}`,
      `Inference ${buffer.inference}, device ${buffer.device}`,
      `${buffer.name}: ${buffer.us.toFixed(1)} µs. A thread's bar is filled by the time in ops, then in waits; the order inside is not shown.`,
      plot,
      el(
        "ul",
        { class: "legend" },
        [
          ["part-core", "in ops"],
          ["part-wait", "waiting"],
          ["part-control", "neither, or not timed"],
        ].map(([name, text]) => el("li", {}, el("i", { class: name }), text)),
      ),
      chip("read from a stats buffer"),
    ),
  );
  axis.views.push(() => {
    const width = drawnWidth(plot);
    const x = (us) => GUTTER + (us / (buffer.us || 1)) * plotWidth(width);
    plot.replaceChildren(
      ...ticks(0, buffer.us || 1, Math.max(2, width / 110)).map((us) =>
        svg(
          "g",
          { class: "tick" },
          svg("line", { x1: x(us), x2: x(us), y1: 0, y2: height }),
          svg(
            "text",
            { x: x(us), y: height + 14, "text-anchor": "middle" },
            `${Number(us.toPrecision(5))} µs`,
          ),
        ),
      ),
    );
    buffer.threads.forEach((thread, row) => plot.append(...threadBar(thread, row * 15, x)));
  });
  plot.addEventListener("pointerleave", hideTip);
  plot.addEventListener("pointermove", (event) => {
    const thread =
      buffer.threads[Math.floor((event.clientY - plot.getBoundingClientRect().top) / 15)];
    if (!thread) return hideTip();
    showTip(event, [
      thread.name,
      `${thread.from.toFixed(1)} to ${thread.to.toFixed(1)} µs`,
      thread.busy === null
        ? "ops were not timed"
        : `${thread.busy.toFixed(1)} µs in ops, ${thread.wait.toFixed(1)} µs waiting`,
    ]);
  });
}

function threadBar(thread, top, x) {
  const part = (name, from, to) =>
    svg("rect", {
      class: name,
      x: x(from),
      y: top + 2,
      width: Math.max(0, x(to) - x(from)),
      height: 11,
    });
  const busy = thread.from + (thread.busy || 0);
  const waited = Math.min(thread.to, busy + (thread.wait || 0));
  return [
    svg(
      "text",
      { class: "row-name", x: GUTTER - 8, y: top + 12, "text-anchor": "end" },
      thread.name,
    ),
    part("part-control", waited, thread.to),
    part("part-core", thread.from, Math.min(thread.to, busy)),
    part("part-wait", Math.min(thread.to, busy), waited),
  ];
}
