"use strict";
// Tables of queries can be sorted by their heads and narrowed to rows that hold a text. Without this script they are
// still there, the hardest query first.
for (const box of document.querySelectorAll("[data-queries]")) {
  const body = box.querySelector("tbody");
  const rows = [...body.rows];
  const words = rows.map((row) => row.cells[0].textContent.toLowerCase());
  const filter = box.querySelector(".filter");
  const output = box.querySelector("output");

  const narrow = () => {
    const wanted = filter.querySelector("input").value.trim().toLowerCase();
    let shown = 0;
    rows.forEach((row, at) => { row.hidden = !words[at].includes(wanted); shown += !row.hidden; });
    output.textContent = `${shown} of ${rows.length}`;
  };
  filter.hidden = false;
  filter.addEventListener("input", narrow);
  narrow();

  const key = (row, column) => {
    const cell = row.cells[column];
    if (column === 0) return cell.textContent.trim().toLowerCase();
    return cell.dataset.value === "" ? NaN : Number(cell.dataset.value.replace("inf", "Infinity"));
  };
  const before = (a, b) => (a === b ? 0 : a !== a ? 1 : b !== b ? -1 : a < b ? -1 : 1);
  box.querySelectorAll("thead th").forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      box.querySelectorAll("thead th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const sorted = [...rows].sort((a, b) => before(key(a, column), key(b, column)) * (down ? -1 : 1));
      body.append(...sorted);
    });
  });
}
