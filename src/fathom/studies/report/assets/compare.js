import { all, byId, opener } from "./dom.js";
import { drawCharts, fillCharts } from "./charts.js";

// Two runs next to each other, and the charts of all runs.

const PARTS = { autoWidth: false, paging: false, order: [] };

function partsTable(DataTable) {
  const shown = ({ label, choice, value }) => opener(label, { chooses: choice, value });
  const part = { _: ({ label }) => label, display: shown };
  const sort = (text) => Number(/[-+\d.]+/.exec(text) ?? Infinity);
  const column = (place) => ({ data: (own) => own.cells[place], className: "number", type: "num", render: { sort } });
  return new DataTable("#slice-table", {
    ...PARTS,
    columns: [{ data: (own) => own, render: part }, ...[0, 1, 2, 3, 4, 5].map(column)],
    layout: { topStart: null, topEnd: "search", bottomStart: null },
    language: { search: "Search parts", emptyTable: "nothing to compare" },
  });
}

function fillCells(evidence, choice, pair) {
  const [kept, cellOf] = [choice.facts("cell"), choice.cellsOf()];
  byId("of-pair").textContent = evidence.refused[pair] ?? evidence.ofPair[pair] ?? "";
  const cells = evidence.refused[pair] ? [] : evidence.facts.map((_, fact) => kept[fact] && cellOf(fact));
  for (const button of all("[data-cell]")) {
    button.querySelector("output").textContent = cells.filter((own) => own === button.dataset.cell).length;
    button.setAttribute("aria-pressed", String(choice.state.cell[0] === button.dataset.cell));
  }
}

export function compareTab(DataTable, evidence, choice) {
  const parts = byId("slice-table") && partsTable(DataTable);
  let pair;
  return async () => {
    const chosen = choice.pair().join("-");
    fillCells(evidence, choice, chosen);
    if (pair !== (pair = chosen)) parts?.clear().rows.add(evidence.slices[pair] ?? []).draw();
    await drawCharts(evidence, choice);
    fillCharts(evidence, choice);
  };
}
