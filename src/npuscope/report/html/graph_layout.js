// Where the graph puts things: modules of consecutive epochs inside of each other, rows from top to
// bottom, and a lane for every result that is still needed, as version control draws its history.

const MOST_GROUPS = 48;
const GLANCE = 60; // rows that are read at one
const FEWEST_TO_GROUP = 24;
const DEEPEST = 16;
const MOST_OF_ALL = 0.8;
const INTERRUPTION = 2; // epochs

// Modules as a tree, [{ key, name, path, first, last, depth, inside }]: by name scopes, and where these
// are too many or none by places that only one result crosses, with the scopes inside of these.
function modulesOf() {
  if (epochs.length < FEWEST_TO_GROUP) return [];
  const tree = modulesIn(0, epochs.length - 1, 0);
  nameModules(tree, 0, "", "");
  return tree;
}

function modulesIn(first, last, depth, before = "") {
  const scopes = scopesIn(first, last, depth, before);
  if (rowsOf(scopes, new Set(), first, last).length <= GLANCE) return scopes;
  return narrowGroups(first, last).map((one) => ({
    ...one,
    inside: scopesIn(one.first, one.last, depth),
  }));
}

// Consecutive epochs with the same name at a depth; a scope that holds all of them adds its name only.
function scopesIn(first, last, depth, before = "") {
  if (depth > DEEPEST) return [];
  const runs = [];
  for (let index = first; index <= last; index++) {
    const path = data.modules[index] || [];
    const name = path[depth] || "";
    const run = runs.at(-1);
    // An epoch without any name belongs to what runs around it.
    if (run && (run.name === name || !path.length)) run.last = index;
    else if (name && runs.at(-2)?.name === name && run.last - run.first < INTERRUPTION) {
      runs.pop(); // an addition with a name of its own in the middle of a block
      runs.at(-1).last = index;
    } else runs.push({ name, first: index, last: index });
  }
  if (runs.length === 1 && runs[0].name) {
    const all = last - first > MOST_OF_ALL * epochs.length;
    return modulesIn(first, last, depth + 1, all ? "" : `${before}${runs[0].name}/`);
  }
  return runs
    .filter((run) => run.name && run.last > run.first)
    .flatMap((run) => {
      // What holds nearly everything tells nothing.
      if (run.last - run.first > MOST_OF_ALL * epochs.length)
        return modulesIn(run.first, run.last, depth + 1);
      const inside = modulesIn(run.first, run.last, depth + 1);
      return [{ ...run, name: before + run.name, inside }];
    });
}

// The key stays the same when the page is drawn again: what the reader opened stays open.
function nameModules(modules, depth, path, key) {
  const counts = new Map();
  for (const module of modules) {
    const number = counts.get(module.name) || 0;
    counts.set(module.name, number + 1);
    Object.assign(module, {
      depth,
      path: path ? `${path}/${module.name}` : module.name,
      key: `${key}/${module.name}#${number}`,
    });
    nameModules(module.inside, depth + 1, module.path, module.key);
  }
}

const everyModule = (modules) => modules.flatMap((one) => [one, ...everyModule(one.inside)]);
const holds = (module, index) => module.first <= index && index <= module.last;

// Few epochs are shown as they are; of many as many levels of modules as are read at one glance.
function openAtFirst(modules) {
  const every = everyModule(modules);
  if (epochs.length <= GLANCE) return new Set(every);
  let open = new Set();
  for (let depth = 0; depth <= DEEPEST; depth++) {
    const wider = new Set(every.filter((one) => one.depth <= depth));
    if (rowsOf(modules, wider).length > GLANCE) break;
    open = wider;
  }
  return open;
}

// As few results as possible should cross from one group to the next.
function narrowGroups(from, to) {
  const size = Math.max(6, Math.ceil((to - from + 1) / MOST_GROUPS));
  const crossing = crossings();
  const groups = [];
  let first = from;
  for (let index = from; index <= to; index++) {
    const length = index - first + 1;
    const narrow = length >= size && crossing[index] <= 1;
    if (narrow || length >= 3 * size || index === to) {
      groups.push({ name: rangeName({ first, last: index }), first, last: index });
      first = index + 1;
    }
  }
  return groups;
}

const rangeName = ({ first, last }) =>
  first === last
    ? `epoch ${label(epochs[first])}`
    : `epochs ${epochs[first].first} to ${epochs[last].last}`;

// How many results made up to an epoch are needed behind it.
function crossings() {
  const last = lastReaders();
  const change = new Array(epochs.length + 1).fill(0);
  last.forEach((to, from) => {
    if (to > from) {
      change[from] += 1;
      change[to] -= 1;
    }
  });
  let open = 0;
  return change.map((step) => (open += step));
}

function lastReaders() {
  const last = epochs.map((_, index) => index);
  for (const [from, to] of data.edges) last[from] = Math.max(last[from], to);
  return last;
}

// Rows that are shown: { module, head, closed } for the line of a module, { module, index } for an epoch
// and the innermost module that holds it.
function rowsOf(modules, open, first = 0, last = epochs.length - 1, around = null) {
  const rows = [];
  let index = first;
  const upTo = (end) => {
    for (; index < end; index++) rows.push({ module: around, index });
  };
  for (const module of modules) {
    upTo(module.first);
    rows.push({ module, head: true, closed: !open.has(module) });
    if (open.has(module))
      for (const row of rowsOf(module.inside, open, module.first, module.last, module)) rows.push(row);
    index = module.last + 1;
  }
  upTo(last + 1);
  return rows;
}

// Edges between rows: an epoch of a closed module counts as the line of its module.
function rowEdges(rows) {
  const place = new Map();
  rows.forEach((row, n) => {
    if (row.index !== undefined) place.set(row.index, n);
    else if (row.closed)
      for (let index = row.module.first; index <= row.module.last; index++) place.set(index, n);
  });
  const found = new Map();
  for (const [from, to] of data.edges) {
    const [a, b] = [place.get(from), place.get(to)];
    if (a < b) found.set(`${a} ${b}`, [a, b]);
  }
  return [...found.values()];
}

// The lane of every row: that of a producer whose last reader it is, else the first free one. A lane
// is taken until the last reader of what was made in it.
function lanesOf(rows, edges) {
  const readers = rows.map(() => []);
  const makers = rows.map(() => []);
  for (const [from, to] of edges) {
    readers[from].push(to);
    makers[to].push(from);
  }
  const lanes = [];
  const until = [];
  rows.forEach((row, n) => {
    if (row.head && !row.closed) return lanes.push(null); // only a heading
    const ending = makers[n].filter((from) => Math.max(...readers[from]) === n);
    const own = ending.map((from) => lanes[from]).sort((a, b) => a - b)[0];
    const lane = own ?? firstFree(until, n);
    until[lane] = Math.max(n, ...readers[n]);
    return lanes.push(lane);
  });
  return lanes;
}

function firstFree(until, row) {
  let lane = 0;
  while (until[lane] !== undefined && until[lane] >= row) lane += 1;
  return lane;
}
