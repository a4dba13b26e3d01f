// Where the graph puts things: modules of consecutive epochs, rows from top to bottom, and a lane for
// every result that is still needed, as version control draws its history.

const MOST_GROUPS = 48;
const FEWEST_TO_GROUP = 24;

// Groups of consecutive epochs: [{ name, first, last }], by the names of modules, or where they tell
// nothing by places that only one result crosses.
function groupsOf() {
  if (epochs.length < FEWEST_TO_GROUP) return [];
  const most = Math.min(MOST_GROUPS, epochs.length / 3);
  let best = [];
  for (let depth = 1; depth <= 8; depth++) {
    const found = modulesAt(depth);
    if (found.length <= most && found.length > best.length) best = found;
  }
  return best.length >= 4 ? best : narrowGroups();
}

function modulesAt(depth) {
  const found = [];
  epochs.forEach((epoch, index) => {
    const path = (data.modules[index] || []).slice(0, depth).join("/");
    const last = found.at(-1);
    // An epoch without a name belongs to what runs around it.
    if (last && (!path || path === last.name)) last.last = index;
    else found.push({ name: path, first: index, last: index });
  });
  return found.map((group) => ({ ...group, name: group.name || "start" }));
}

// As few results as possible should cross from one group to the next.
function narrowGroups() {
  const size = Math.max(6, Math.ceil(epochs.length / MOST_GROUPS));
  const crossing = crossings();
  const found = [];
  let first = 0;
  for (let index = 0; index < epochs.length; index++) {
    const length = index - first + 1;
    const narrow = length >= size && crossing[index] <= 1;
    if (narrow || length >= 3 * size || index === epochs.length - 1) {
      found.push({ name: "", first, last: index });
      first = index + 1;
    }
  }
  return found.map((group) => ({ ...group, name: rangeName(group) }));
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

// Rows that are shown: { group, head } for the line of a module, { group, index } for an epoch.
function rowsOf(groups, open) {
  if (!groups.length) return epochs.map((_, index) => ({ group: null, index }));
  return groups.flatMap((group) => {
    const head = { group, head: true };
    if (!open.has(group)) return [head];
    const inside = [];
    for (let index = group.first; index <= group.last; index++) inside.push({ group, index });
    return [head, ...inside];
  });
}

// Edges between rows: an epoch of a closed module counts as the line of its module.
function rowEdges(rows) {
  const place = new Map();
  rows.forEach((row, n) => {
    if (row.index !== undefined) place.set(row.index, n);
    else if (rows[n + 1]?.group !== row.group)
      for (let index = row.group.first; index <= row.group.last; index++) place.set(index, n);
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
    if (row.head && rows[n + 1]?.group === row.group) return lanes.push(null); // only a heading
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
