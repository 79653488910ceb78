import { all, byId, isolated, make, opener, percent } from "./dom.js";
import { UNSURE } from "./evidence.js";
import { tokenBoxes } from "./tokens.js";

// The table of facts, and every prompt and answer of the opened one.

const LANGUAGE = { info: "_START_ to _END_ of _TOTAL_ facts", infoFiltered: "(of _MAX_)", lengthMenu: "_MENU_ a page" };
const MARKS = 4; // the first column of marks
const TABLE = { autoWidth: false, deferRender: true, order: [], pageLength: 25, language: LANGUAGE };

function markOf(evidence, view, fact) {
  const [hit, rank] = [evidence.hit(view, fact), evidence.meanRank(view, fact)];
  if (Number.isNaN(hit)) return "–";
  const mark = { 0: "✗", 1: "✓" }[hit] ?? percent(hit);
  return Number.isFinite(rank) ? `${mark} (${Number(rank.toFixed(1))})` : mark;
}

// The mark, and what was answered instead of the right answer.
function markWithAnswer(evidence, view, fact) {
  const instead = evidence.hit(view, fact) === 0 ? ` ${evidence.firstOf(view, fact)}` : "";
  return isolated(markOf(evidence, view, fact) + instead, 120);
}

// --- columns
// What the columns after the marks show: the most confident mistake, and how many of the shown runs are right.
function mistakeText(evidence, choice, fact) {
  const at = evidence.surestMistake(fact, choice.shown());
  if (at === undefined) return "–";
  const sure = percent(evidence.confidence[at] / (UNSURE - 1));
  return `${evidence.texts[evidence.answer[at]]} ${sure} (${evidence.views[evidence.view[at]].name})`;
}

function rightText(evidence, choice, fact) {
  const { right, of } = evidence.disagreement(fact, choice.shown());
  return `${right} of ${of} right`;
}

function columns(evidence, choice) {
  const column = (data, more) => ({
    searchable: false,
    type: "string",
    render: { display: (name) => isolated(name, 120) },
    data: (fact) => data(fact),
    ...more,
  });
  const first = { display: (name, _, fact) => opener(name, { fact: evidence.facts[fact] }) };
  const number = { type: "num", orderDataType: "fathom" };
  const marked = (view) => ({ render: { display: (_, __, fact) => markWithAnswer(evidence, view, fact) } });
  const hidden = { visible: false };
  return [
    column(evidence.subjectOf, { render: first }),
    column(evidence.relationOf),
    column((fact) => evidence.golds(fact).join("; ")),
    column((fact) => evidence.facts[fact], hidden),
    ...evidence.views.map((_, view) => column((fact) => markOf(evidence, view, fact), { ...number, ...marked(view) })),
    column((fact) => mistakeText(evidence, choice, fact), { ...number, ...hidden }),
    column((fact) => rightText(evidence, choice, fact), { ...number, ...hidden }),
    ...evidence.views.map((_, view) => column((fact) => evidence.firstOf(view, fact), hidden)),
  ];
}

// By what facts are sorted in a column of numbers: these change with the chosen template and the shown runs.
function orderOf(evidence, choice, column) {
  const [view, shown] = [column - MARKS, choice.shown()];
  const { views, confidence } = evidence;
  if (view < views.length)
    return (fact) => evidence.meanRank(view, fact) || -evidence.hit(view, fact) || Infinity;
  if (view > views.length) return (fact) => evidence.disagreement(fact, shown).order;
  return (fact) => confidence[evidence.surestMistake(fact, shown)] ?? -1;
}

function makeTable(DataTable, evidence, choice) {
  const order = (_, column) => Array.from(evidence.facts.keys(), orderOf(evidence, choice, column));
  DataTable.ext.order.fathom = order;
  const format = { body: (raw) => raw, header: (_, __, head) => head.textContent };
  const exportOptions = { format, orthogonal: "export" };
  const save = { extend: "csv", text: "Save as CSV", filename: "facts", exportOptions };
  return new DataTable("#evidence-table", {
    data: evidence.facts.map((_, fact) => fact),
    ...TABLE,
    columns: columns(evidence, choice),
    layout: { topStart: "pageLength", topEnd: { buttons: [save] } },
    drawCallback: () => markOpen(choice),
  }).search.fixed("chosen", (_, fact) => Boolean(choice.kept?.[fact]));
}

const markOpen = ({ state: { open } }) =>
  all("[data-fact]").forEach((button) => (button.ariaExpanded = String(button.dataset.fact === open[0])));

// --- one fact: a line for each run, a column for each template
function factGrid(evidence, choice, fact) {
  const [places, { template }] = [evidence.ofFact[fact], evidence];
  const templates = Object.keys(evidence.labels.template).filter((code) => places.some((at) => template[at] === +code));
  const headOf = (code) => evidence.templateText(places.find((at) => template[at] === +code));
  const heads = templates.map((code) => make("th", { scope: "col" }, isolated(headOf(code), 120)));
  const lines = evidence.views.map(({ name, probe, scoring }, view) => {
    const own = (code) => places.filter((at) => evidence.view[at] === view && template[at] === +code);
    const cells = templates.map((code) => make("td", {}, ...own(code).map((at) => answerList(evidence, at))));
    const head = make("th", { scope: "row" }, isolated(name), make("small", {}, `${probe}, ${scoring}`));
    return choice.shown()[view] && cells.some((cell) => cell.hasChildNodes()) ? [make("tr", {}, head, ...cells)] : [];
  });
  const about = [evidence.relationOf(fact), `right: ${evidence.golds(fact).join("; ")}`, evidence.facts[fact]];
  const shown = byId("one-fact").content.cloneNode(true).firstElementChild;
  const [title, text] = [isolated(evidence.subjectOf(fact)), isolated(about.join(" · "))];
  const parts = { h3: [title], p: [text], "thead tr": heads, tbody: lines.flat() };
  for (const [part, own] of Object.entries(parts)) shown.querySelector(part).append(...own);
  return shown;
}

function answerList(evidence, at) {
  const prompt = make("p", { className: "prompt", tabIndex: 0 }, isolated(evidence.prompt(at)));
  const why = evidence.texts[evidence.reason[at]];
  if (why) return make("div", {}, prompt, make("p", { className: "unscored" }, isolated(`unscored: ${why}`)));
  const shown = evidence.confidence[at] === UNSURE ? (value) => value.toFixed(2) : percent;
  const line = ({ text, value, right }, more = {}) => {
    const suffix = value === null ? "" : ` ${shown(value)}`;
    return make("li", { className: right ? "right" : "", ...more }, isolated(text), suffix, right ? " ✓" : "");
  };
  const [lines, unlisted] = [evidence.answers(at).map((answer) => line(answer)), evidence.unlisted(at)];
  // After the stored answers, with its rank as its number, or below the list if the rank is unknown.
  const number = Math.round(Math.abs(evidence.rank[at]));
  if (unlisted && number) lines.push(line(unlisted, { value: number + (evidence.rank[at] < 0 ? 1 : 0) }));
  const [rank, credit] = [evidence.rank[at], `credit ${percent(evidence.right[at])}`];
  const ranked = rank < 0 ? `beyond rank ${-rank}` : `rank of the right answer: ${Number(rank.toFixed(1))}`;
  const note = make("p", { className: "score" }, Number.isNaN(rank) ? credit : ranked);
  return make("div", {}, prompt, make("ol", {}, ...lines), note, ...tokenBoxes(evidence, at));
}

// --- the tab
export class Facts {
  constructor(DataTable, evidence, choice) {
    Object.assign(this, { evidence, choice, table: makeTable(DataTable, evidence, choice) });
    const mistakes = MARKS + evidence.views.length;
    this.sorts = { wrong: mistakes, disagreement: mistakes + 1 };
    this.table.on("order.dt", () => this.ordered());
    const isUnsure = evidence.confidence.every((own) => own === UNSURE);
    all("[data-sort=wrong]").forEach((button) => (button.disabled = isUnsure));
  }

  // A click on a head takes the place of a chosen sort.
  ordered() {
    const [sort] = this.choice.state.sort;
    if (this.isSorting || !sort || this.table.order()[0]?.[0] === this.sorts[sort]) return;
    this.sort = undefined;
    this.choice.set({ sort: [] });
  }

  fill() {
    const { table, evidence, choice } = this;
    const [{ hidden, sort: [sort] }, { chosen }] = [choice.state, evidence];
    choice.shown().forEach((own, view) => this.setVisible(MARKS + view, own));
    // Marks are by template; of the shown runs are only the columns of a sort.
    const by = JSON.stringify([chosen, sort ? hidden : []]);
    if (this.by !== (this.by = by)) table.rows((_, __, node) => node).invalidate("data"); // rows that were drawn
    if (this.sort !== sort) {
      [this.sort, this.isSorting] = [sort, true];
      table.order(sort in this.sorts ? [[this.sorts[sort], "desc"]] : []);
      for (const [name, at] of Object.entries(this.sorts)) this.setVisible(at, name === sort);
    }
    if (this.drawn !== (this.drawn = `${choice.kept.join("")} ${sort} ${by}`)) table.draw();
    this.isSorting = false;
    all("[data-sort]").forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.sort === sort)));
    this.open();
  }

  // Showing a column that is shown would take as long as showing it.
  setVisible(at, isShown) {
    const column = this.table.column(at);
    if (column.visible() !== isShown) column.visible(isShown, false);
  }

  // Expand the chosen fact below its row, on whichever page of the table that is.
  open() {
    const { table, evidence, choice } = this;
    const fact = evidence.facts.indexOf(choice.state.open[0]);
    if (this.opened >= 0) table.row(this.opened).child.remove();
    this.opened = fact;
    if (fact >= 0) {
      const order = table.rows({ order: "applied", search: "applied" }).indexes().toArray();
      const page = Math.floor(order.indexOf(fact) / table.page.len());
      if (page >= 0 && page !== table.page()) table.page(page).draw("page");
      table.row(fact).child(factGrid(evidence, choice, fact), "one-fact").show();
    }
    markOpen(choice);
  }

  // Open or close a fact; the focus follows.
  toggle(name) {
    const isOpen = this.choice.state.open[0] === name;
    this.choice.set({ open: isOpen ? [] : [name] });
    const target = isOpen ? all("[data-fact]").find((own) => own.dataset.fact === name) : byId("fact");
    target?.focus();
    target?.scrollIntoView({ block: "nearest" });
  }
}
