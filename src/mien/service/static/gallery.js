// The table of disorders: search and sorting; and the map beside it.
import { drawMap } from "./map.js";
import { count, fold } from "./words.js";

const body = document.querySelector("#disorders tbody");
const heads = [...document.querySelectorAll("#disorders thead th")];
const search = document.querySelector("#search");
const status = document.querySelector("#status");
const rows = [...body.rows];
const searchable = new Map(rows.map((row) => [row, fold([...row.cells].slice(0, 3).map((cell) => cell.textContent).join(" "))]));
const collator = new Intl.Collator("en", { numeric: true });

search.addEventListener("input", () => {
  const needle = fold(search.value.trim());
  for (const row of rows) row.hidden = !searchable.get(row).includes(needle);
  const left = rows.filter((row) => !row.hidden).length;
  status.textContent = left === rows.length ? count(left, "disorder", "disorders") : `${left} of ${count(rows.length, "disorder", "disorders")}`;
});

heads.forEach((head, column) => head.firstElementChild.addEventListener("click", () => {
  // numbers are wanted from the largest down, words from A
  const first = head.classList.contains("number") ? "descending" : "ascending";
  const way = head.ariaSort ? (head.ariaSort === "ascending" ? "descending" : "ascending") : first;
  for (const other of heads) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", way);
  const text = (row) => row.cells[column].matches(".none") ? "" : row.cells[column].textContent;
  const sign = way === "ascending" ? 1 : -1;
  rows.sort((a, b) => !text(a) - !text(b) || sign * collator.compare(text(a), text(b))); // the nameless stay last
  body.append(...rows);
}));

const data = document.querySelector("#map-data");
if (data) {
  const rowOf = new Map(rows.map((row) => [row.dataset.disorder, row]));
  const named = (id) => rowOf.get(id)?.querySelector("th:not(.none)")?.textContent;
  const nameOf = (id) => named(id) ?? `Disorder ${id}`;
  const map = drawMap(document.querySelector("#map"), JSON.parse(data.textContent), {
    nameOf,
    describe: nameOf,
    onPick: (id) => { search.value = named(id) ?? id; search.dispatchEvent(new Event("input")); },
  });
  body.addEventListener("pointerover", (event) => map.light(event.target.closest("tr").dataset.disorder));
  body.addEventListener("pointerleave", () => map.light(null));
}
