// The groups of the live view's panel: each is made of the setting and the last answer.
const group = (title, ...children) => el("fieldset", {}, el("legend", {}, title), ...children);

function picker(id, name, rows, chosenValue, onpick) {
  const options = rows.map(([value, text]) =>
    el("option", { value, selected: `${value}` === `${chosenValue}` ? "" : null }, text),
  );
  const box = el("select", { id, onchange: (event) => onpick(event.target.value) }, options);
  return el("label", { class: "row" }, el("span", {}, name), box);
}

function modelPart() {
  const rows = app.models.map((name, n) => [n, name]);
  const pick = (value) => change({ model: Number(value), fixes: [] });
  return group("Model", picker("pick-model", "", rows, live.setting.model, pick));
}

// A machine of another family: its own options, and keys under "What if".
function familyPart() {
  const rows = app.own.map(({ name, choices }) => {
    const now = live.setting.own.find(([key]) => key === name)?.[1] ?? "";
    const others = live.setting.own.filter(([key]) => key !== name);
    const pick = (value) => change({ own: value === "" ? others : [...others, [name, value]] });
    const known = [["", "usual"], ...choices.map((choice) => [choice, choice])];
    return choices.length ? picker(`pick-${name}`, name.replaceAll("_", " "), known, now, pick) : null;
  });
  return rows.some(Boolean) ? group("Machine", rows) : null;
}

function machinePart() {
  if (!app.generations.length) return familyPart();
  const { setting, answer } = live;
  const levels = [["", "usual"], ...app.levels.map((level) => [level, `-O${level}`])];
  return group(
    "Machine",
    picker(
      "pick-generation",
      "generation",
      app.generations.map((name) => [name, name]),
      answer.generation,
      (value) => change({ generation: value }),
    ),
    el(
      "label",
      { class: "row" },
      el("span", {}, "epoch controller"),
      el("input", {
        id: "pick-controller",
        type: "checkbox",
        checked: answer.epoch_controller ? "" : null,
        onchange: (event) => change({ epoch_controller: event.target.checked }),
      }),
    ),
    picker("pick-level", "optimization", levels, setting.optimization ?? "", (value) =>
      change({ optimization: value === "" ? null : Number(value) }),
    ),
    ...Object.entries(app.named).map(([key, names]) => namedRow(key, names)),
    valueRow("clocks.npu_mhz", "NPU, MHz"),
    valueRow("clocks.mcu_mhz", "CPU, MHz"),
  );
}

const NAMED = { clock_mode: "clocks", flash: "flash", psram: "external RAM" };

// A set-up that has a name; without one it is the first.
function namedRow(key, names) {
  const rows = [["", "usual"], ...names.map((name) => [name, name])];
  const now = overridden(key)?.[1] ?? "";
  return picker(`pick-${key}`, NAMED[key], rows, now, (value) => setValue(key, value));
}

const overridden = (key) => live.setting.values.find(([name]) => name === key);

function setValue(key, text, wait) {
  const others = live.setting.values.filter(([name]) => name !== key);
  change({ values: text === "" ? others : [...others, [key, text]] }, wait);
}

// One key of the machine; an empty box is the machine's own value.
function valueRow(key, name) {
  const found = live.answer.keys[key];
  if (!found) return null;
  const own = overridden(key);
  return el(
    "label",
    { class: own ? "row changed" : "row", title: app.notes[key] || null },
    el("span", {}, name),
    el("input", {
      id: `value-${key}`,
      value: own ? own[1] : "",
      placeholder: `${found[0]}`,
      inputmode: "decimal",
      autocomplete: "off",
      oninput: (event) => setValue(key, event.target.value.trim(), 250),
    }),
  );
}

function poolPart() {
  const names = Object.keys(live.answer.keys)
    .map((key) => key.match(/^pools\.(.+)\.size_kib$/)?.[1])
    .filter(Boolean);
  const files = [[0, "default of the machine"], ...app.pools.map((name, n) => [n + 1, name])];
  const pick = (value) =>
    change({
      pools: Number(value),
      values: live.setting.values.filter(([key]) => !key.startsWith("pools.")),
    });
  if (!names.length && !app.pools.length) return null;
  const sizes = names.map((name) => valueRow(`pools.${name}.size_kib`, `${name}, KiB`));
  return group(
    "Memory pools",
    app.pools.length ? picker("pick-pools", "file", files, live.setting.pools, pick) : null,
    el("details", { id: "pool-sizes" }, el("summary", {}, "sizes"), sizes),
  );
}

function fixPart() {
  const rows = live.answer.fixes;
  if (!rows.length) return group("Fixes", el("p", { class: "hint" }, "No rule offers one."));
  return group("Fixes", el("ul", { class: "choices" }, rows.map(fixRow)));
}

function fixRow(row) {
  const gain = row.gain === null ? "" : row.gain >= 0 ? `−${ms(row.gain)} ms` : `+${ms(-row.gain)} ms`;
  const places = row.places > 1 ? `${row.places} places` : "";
  const toggle = (event) => {
    const others = live.setting.fixes.filter((fix) => fix !== row.id);
    change({ fixes: event.target.checked ? [...others, row.id] : others });
  };
  return el(
    "li",
    {},
    el(
      "label",
      {},
      el("input", {
        type: "checkbox",
        id: `fix-${row.id}`,
        "data-fix": row.id,
        checked: row.on ? "" : null,
        onchange: toggle,
      }),
      el("span", {}, row.title),
    ),
    el(
      "div",
      { class: "hint" },
      [row.rule, places, row.on ? `saves ${gain}`.replace("saves −", "saves ") : gain && `at most ${gain}`]
        .filter(Boolean)
        .join(" · "),
    ),
    row.on ? row.notes.map((note) => el("div", { class: "hint" }, note)) : null,
  );
}

const SHOWN_ELSEWHERE =
  /^(clock_mode|flash|psram|clocks\.(npu|mcu)_mhz|pools\..+\.size_kib)$/;

function whatIfPart() {
  const known = Object.keys(live.answer.keys);
  const rows = live.setting.values
    .filter(([key]) => !SHOWN_ELSEWHERE.test(key))
    .map(([key]) =>
      el(
        "div",
        { class: "what-if" },
        valueRow(key, key),
        el(
          "button",
          { type: "button", class: "close", title: `${key} as it was`, onclick: () => setValue(key, "") },
          "×",
        ),
      ),
    );
  const add = el("input", {
    id: "what-if-key",
    type: "search",
    list: "machine-keys",
    placeholder: "key of the machine …",
    "aria-label": "key to change",
    autocomplete: "off",
    onchange: (event) => {
      const key = event.target.value.trim();
      event.target.value = "";
      if (key in live.answer.keys) setValue(key, spelt(live.answer.keys[key][0]));
      else if (key) complain({ message: `the machine has no key '${key}'` });
    },
  });
  const options = known.map((key) =>
    el("option", { value: key }, `${live.answer.keys[key][1]}: ${app.notes[key] || ""}`),
  );
  return group("What if", rows, add, el("datalist", { id: "machine-keys" }, options));
}

// As --set takes it.
const spelt = (value) => (Array.isArray(value) ? JSON.stringify(value) : `${value}`);

function comparePart() {
  const act = (id, text, onclick) => el("button", { type: "button", id, onclick }, text);
  if (!live.kept)
    return group(
      "Compare",
      act("keep", "keep this as A", () => keep(live.setting)),
      el("p", { class: "hint" }, "Then change something: the new setting is B, shown beside A."),
    );
  return group(
    "Compare",
    el("p", { class: "hint" }, `A: ${settingText(live.kept)}`),
    el("p", { class: "hint" }, `B: ${settingText(live.setting)}`),
    el(
      "div",
      { class: "bar" },
      act("keep", "keep B as A", () => keep(live.setting)),
      act("swap", "swap", () => {
        const a = live.kept;
        live.kept = live.setting;
        change(a);
      }),
      act("part", "end", () => keep(null)),
    ),
  );
}

function keep(setting) {
  live.kept = setting;
  change({});
}

function settingText(setting) {
  return [
    app.models[setting.model],
    setting.generation,
    setting.epoch_controller === false ? "no epoch controller" : "",
    setting.optimization === null ? "" : `-O${setting.optimization}`,
    setting.pools ? app.pools[setting.pools - 1] : "",
    ...setting.own.map(([key, value]) => `${key}=${value}`),
    ...setting.values.map(([key, value]) => `${key}=${value}`),
    ...setting.fixes.map((fix) => fix.split("/")[1]),
  ]
    .filter(Boolean)
    .join(", ");
}

function commandPart() {
  const text = live.answer.command;
  const copy = async (event) => {
    await navigator.clipboard.writeText(text);
    event.target.textContent = "copied";
  };
  return group(
    "On the command line",
    el("code", { id: "command" }, text),
    el("button", { type: "button", class: "link", onclick: copy }, "copy"),
  );
}
