// Predicted against measured; without a measurement, the compiler's own estimate against ours.
function comparedPoints() {
  const hertz = data.clocks.npu_mhz * 1e3;
  return epochs
    .map((epoch, index) =>
      data.measured
        ? { index, x: epoch.predicted_ms, y: epoch.ms }
        : { index, x: epoch.kind === "HW" ? epoch.max_cycles / hertz : null, y: epoch.phases[1] },
    )
    .filter((point) => point.x > 0 && point.y > 0);
}

function drawCompared() {
  const points = comparedPoints();
  const caption = data.measured
    ? "Each epoch: our prediction against what was measured. On the line they agree."
    : `Each NPU epoch: the compiler's own cycle estimate (its max cycles) against the time of the core in this report, which is ${data.source}. On the line they agree.`;
  const title = data.measured ? "Predicted against measured" : "The compiler's estimate against ours";
  const names = data.measured
    ? ["predicted", "measured"]
    : ["compiler's estimate", `core, ${data.source}`];
  if (!points.length) return;
  const sum = (key) => points.reduce((total, point) => total + point[key], 0);
  const [x, y] = [sum("x"), sum("y")];
  const plot = svg("svg", {
    class: "plot",
    id: "compared-plot",
    height: 300,
    role: "img",
    "aria-label": "predicted against measured",
  });
  const row = (cells) =>
    el(
      "tr",
      {},
      cells.map((cell) => el("td", {}, cell)),
    );
  const far = [...points].sort((a, b) => Math.abs(b.y - b.x) - Math.abs(a.y - a.x)).slice(0, 6);
  root.append(
    section(
      "compared",
      title,
      caption,
      el(
        "div",
        { class: "columns" },
        plot,
        el(
          "div",
          {},
          el(
            "p",
            {},
            `${points.length} epochs: ${names[0]} ${ms(x)} ms, ${names[1]} ${ms(y)} ms (${x ? `${y >= x ? "+" : ""}${(100 * (y / x - 1)).toFixed(1)} %` : "-"}). The largest differences:`,
          ),
          el(
            "div",
            { class: "scroller" },
            el(
              "table",
              { class: "small" },
              el(
                "thead",
                {},
                el(
                  "tr",
                  {},
                  ["epoch", `${names[0]}, ms`, `${names[1]}, ms`, "ratio"].map((name) =>
                    el("th", { scope: "col" }, name),
                  ),
                ),
              ),
              el(
                "tbody",
                {},
                far.map((point) =>
                  row([
                    el(
                      "button",
                      {
                        type: "button",
                        class: "link",
                        onclick: () => choose(point.index, "compared"),
                      },
                      label(epochs[point.index]),
                    ),
                    ms(point.x),
                    ms(point.y),
                    (point.y / point.x).toFixed(2),
                  ]),
                ),
              ),
            ),
          ),
          sourceChip(),
        ),
      ),
    ),
  );
  axis.views.push(() => drawScatter(plot, points, names));
  plot.addEventListener("pointerleave", hideTip);
  plot.addEventListener("pointermove", (event) => {
    const index = event.target.dataset.index;
    if (index === undefined) return hideTip();
    const point = points.find((one) => one.index === Number(index));
    showTip(event, [
      ...epochLines(point.index),
      `${names[0]} ${ms(point.x)} ms, ${names[1]} ${ms(point.y)} ms`,
    ]);
  });
  plot.addEventListener("click", (event) => {
    if (event.target.dataset.index !== undefined)
      choose(Number(event.target.dataset.index), "compared");
  });
}

function drawScatter(plot, points, names) {
  const width = drawnWidth(plot);
  const box = { left: 78, right: width - 26, top: 10, bottom: 258 };
  const values = points.flatMap((point) => [point.x, point.y]);
  const [low, high] = [
    decade(Math.min(...values), false),
    decade(Math.max(...values) * 1.001, true),
  ];
  const at = (value) => Math.log10(value / low) / Math.log10(high / low);
  const x = (value) => box.left + at(value) * (box.right - box.left);
  const y = (value) => box.bottom - at(value) * (box.bottom - box.top);
  plot.replaceChildren();
  for (let value = low; value <= high * 1.001; value *= 10)
    plot.append(
      svg(
        "g",
        { class: "tick" },
        svg("line", { x1: x(value), x2: x(value), y1: box.top, y2: box.bottom }),
        svg("line", { x1: box.left, x2: box.right, y1: y(value), y2: y(value) }),
        svg(
          "text",
          { x: x(value), y: box.bottom + 15, "text-anchor": "middle" },
          `${Number(value.toPrecision(2))}`,
        ),
        svg(
          "text",
          { x: box.left - 6, y: Math.min(box.bottom - 1, y(value) + 4), "text-anchor": "end" },
          `${Number(value.toPrecision(2))} ms`,
        ),
      ),
    );
  plot.append(
    svg(
      "text",
      {
        class: "axis-name",
        x: (box.left + box.right) / 2,
        y: box.bottom + 33,
        "text-anchor": "middle",
      },
      `${names[0]}, ms`,
    ),
    svg("text", { class: "axis-name", x: box.left + 6, y: box.top + 10 }, `${names[1]}, ms`),
    svg("line", { class: "diagonal", x1: x(low), y1: y(low), x2: x(high), y2: y(high) }),
  );
  for (const point of points)
    plot.append(
      svg("circle", {
        class: `dot ${kindClass(epochs[point.index])}${point.index === chosen.index ? " dot-chosen" : ""}`,
        cx: x(point.x).toFixed(1),
        cy: y(point.y).toFixed(1),
        r: point.index === chosen.index ? 7 : 3,
        "data-index": point.index,
      }),
    );
}
