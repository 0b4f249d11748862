"use strict";
// Tables of queries: all rows can be sorted by their heads, narrowed to those that hold a text, and paged. Rows after the
// first ones are data until they are shown. Without this script the first rows are still there, the hardest query first.
const PAGE = 200;
const number = (shown) => (shown === "" || shown === "–" ? NaN : Number(shown.replaceAll(",", "").replace("∞", "Infinity").replace(/^inf$/, "Infinity")));
const before = (a, b) => (a === b ? 0 : a !== a ? 1 : b !== b ? -1 : a < b ? -1 : 1);

function image(name, about) {
  const symbol = document.getElementById(name);
  const [svg, use] = ["svg", "use"].map((tag) => document.createElementNS(symbol.namespaceURI, tag));
  svg.setAttribute("class", "thumb");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", about);
  svg.setAttribute("viewBox", symbol.getAttribute("viewBox"));
  use.setAttribute("href", `#${name}`);
  svg.append(use);
  return svg;
}

function made([id, text, cells, name]) {
  const row = document.createElement("tr");
  const head = document.createElement("th");
  const code = document.createElement("code");
  head.scope = "row";
  code.textContent = id;
  head.append(...(name ? [image(name, `Image of ${id}`), " "] : []), text ? `${text} ` : "", code);
  row.append(head, ...cells.map((shown) => Object.assign(document.createElement("td"), { textContent: shown })));
  return row;
}

for (const box of document.querySelectorAll("[data-queries]")) {
  const body = box.querySelector("tbody");
  const filter = box.querySelector(".filter");
  const output = box.querySelector("output");
  const data = box.querySelector("script[type='application/json']");
  const there = [...body.rows].map((row) => ({
    row, words: row.cells[0].textContent.trim().toLowerCase(), keys: [...row.cells].slice(1).map((cell) => number(cell.dataset.value)),
  }));
  const further = (data ? JSON.parse(data.textContent) : []).map((entry) => ({
    entry, words: `${entry[1]} ${entry[0]}`.trim().toLowerCase(), keys: entry[2].map(number),
  }));
  const rows = [...there, ...further];
  let ordered = rows, first = 0;

  const turn = document.createElement("span");
  const [back, on] = [["Previous", -PAGE], ["Next", PAGE]].map(([name, step]) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = name;
    button.addEventListener("click", () => { first += step; show(); body.closest(".scroll").scrollTop = 0; });
    return button;
  });
  turn.className = "turn";
  turn.append(back, " ", on);
  filter.append(" ", turn);

  function show() {
    const wanted = filter.querySelector("input").value.trim().toLowerCase();
    const kept = ordered.filter((each) => each.words.includes(wanted));
    const some = kept.slice(first, first + PAGE);
    body.replaceChildren(...some.map((each) => (each.row ??= made(each.entry))));
    const part = kept.length > PAGE ? `${first + 1} to ${first + some.length} of ${kept.length}` : `${kept.length}`;
    output.textContent = kept.length > PAGE && kept.length === rows.length ? part : `${part} of ${rows.length}`;
    turn.hidden = kept.length <= PAGE;
    back.disabled = first === 0;
    on.disabled = first + PAGE >= kept.length;
  }
  filter.hidden = false;
  filter.addEventListener("input", () => { first = 0; show(); });
  show();

  box.querySelectorAll("thead th").forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      box.querySelectorAll("thead th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (each) => (column === 0 ? each.words : each.keys[column - 1]);
      ordered = [...rows].sort((a, b) => before(key(a), key(b)) * (down ? -1 : 1));
      first = 0;
      show();
    });
  });
}
