// Every part of every page is in PAGES: [address, title, heading, words].
const box = document.getElementById("search");
const hits = document.getElementById("hits");

const holds = ([, title, , text], word) => text.includes(word) || title.toLowerCase().includes(word);

function rank([, title, , text], words) {
  const named = words.filter((word) => title.toLowerCase().includes(word)).length;
  return 20 * named + words.reduce((sum, word) => sum + text.split(word).length, 0);
}

function hit([page, title, part]) {
  const link = document.createElement("a");
  link.href = ROOT + page;
  link.textContent = part ? `${title}: ${part}` : title;
  const item = document.createElement("li");
  item.append(link);
  return item;
}

box.addEventListener("input", () => {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = PAGES.filter((row) => words.length && words.every((word) => holds(row, word)));
  found.sort((a, b) => rank(b, words) - rank(a, words));
  hits.replaceChildren(...found.slice(0, 20).map(hit));
});
