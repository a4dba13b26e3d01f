// The page of `validate --data`: figures with their ranges, answers that change, costly layers.
function drawAccuracy() {
  drawHead(data.said);
  if (data.advice.length)
    root.append(
      section(
        "first",
        "Look at this first",
        "",
        el("ul", { class: "cases" }, data.advice.map((note) => el("li", {}, note))),
      ),
    );
  if (data.figures.length)
    root.append(
      section(
        "figures",
        "What the answers are worth",
        "The bar is the range that holds the figure in 95 of 100 cases; the line is the figure.",
        el("table", { class: "causes" }, el("tbody", {}, data.figures.map(figureRow))),
      ),
    );
  root.append(
    section(
      "pairs",
      "The same samples by two arithmetics",
      "Lost: right by the first alone. Won: right by the second alone.",
      table(["from", "to", "answers that change", "95 % range", "lost", "won"], data.pairs, [0, 1]),
    ),
  );
  if (data.changed.length)
    root.append(
      section(
        "changed",
        "Samples whose answer changes",
        "",
        el(
          "ul",
          { class: "samples" },
          data.changed.map((one) =>
            el(
              "li",
              {},
              one.picture ? el("img", { src: one.picture, alt: "" }) : null,
              el("strong", {}, one.name),
              one.answers.map(([who, what]) => el("p", { class: "caption" }, `${who}: ${what}`)),
            ),
          ),
        ),
      ),
    );
  if (data.layers.length)
    root.append(
      section(
        "layers",
        "Layers that cost most",
        "One layer at a time is computed by the second arithmetic, all others by the first.",
        table(["layer", "from", "to", "outputs move by", "answers that change"], data.layers, [0, 1, 2]),
      ),
    );
  drawFacts();
  drawMenu();
}

function figureRow(figure) {
  const [low, value, high] = figure.places.map((place) => 150 * place);
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, figure.title),
    el("td", {}, figure.name),
    el("td", { class: "number" }, figure.value),
    el("td", {}, figure.range),
    el(
      "td",
      { class: "cause-bar" },
      svg(
        "svg",
        { viewBox: "0 0 150 12", preserveAspectRatio: "none", "aria-hidden": "true" },
        svg("rect", { class: "part-read", x: low, y: 2, width: Math.max(1, high - low), height: 8 }),
        svg("rect", { class: "part-software", x: value - 0.5, y: 0, width: 1, height: 12 }),
      ),
    ),
  );
}
