"use strict";
// Tables that are sorted by a click on a heading: numbers by value, words by letter; once more turns the order round.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    head.firstElementChild.addEventListener("click", () => {
      const order = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      const rows = [...table.tBodies[0].rows];
      const key = (row) => row.cells[column].dataset.key;
      const word = (row) => row.cells[column].textContent;
      rows.sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        // What has no number comes last, whichever way round.
        if (x !== undefined && y !== undefined) return order * (x - y);
        if (x !== undefined || y !== undefined) return x !== undefined ? -1 : 1;
        return order * word(a).localeCompare(word(b));
      });
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order > 0 ? "ascending" : "descending");
      table.tBodies[0].append(...rows);
    });
  });
}
