// Glue between the evidence and the libraries that show it: choices, the facts that they leave, and the page's link.
// Whatever comes from data or models is set as text, never as HTML.

const UNSURE = 65535; // an unknown confidence
const BRUSHED = ["rank", "confidence", "score", "length"];
const CHOSEN = ["q", "relation", "slice", "template", "cell", ...BRUSHED];
const TABLE = { autoWidth: false, deferRender: true, order: [], pageLength: 25 };
const STATE = [...CHOSEN, ...BRUSHED.map((name) => `${name}.run`), "hidden", "pair", "open"];

const byId = (id) => document.getElementById(id);
const all = (selector) => [...document.querySelectorAll(selector)];
const percent = (share) => (Number.isFinite(share) ? `${(100 * share).toFixed(1)} %` : "–");

function make(tag, { data = {}, ...attributes } = {}, ...children) {
  const node = Object.assign(document.createElement(tag), attributes);
  Object.assign(node.dataset, data);
  node.append(...children);
  return node;
}

// Names may run from right to left, or never end.
const isolated = (text, most = Infinity) => make("bdi", {}, text.length > most ? `${text.slice(0, most)}…` : text);
const opener = (text, data) => make("button", { type: "button", className: "opener", data }, isolated(text, 120));

// --- reading
const packed = async (id) => (await fetch(`data:application/gzip;base64,${byId(id).textContent}`)).body;
const unpacked = async (id) => new Response((await packed(id)).pipeThrough(new DecompressionStream("gzip")));

async function loadLibraries() {
  const [style, tables, drawing] = ["table-style", "table-code", "charts-code"].map(unpacked);
  document.head.prepend(make("style", { textContent: await (await style).text() }));
  document.head.append(make("script", { textContent: await (await drawing).text() }));
  const code = new Blob([await (await tables).text()], { type: "text/javascript" });
  return (await import(URL.createObjectURL(code))).default;
}

// The length of a JSON header, the header, then columns of numbers.
async function readEvidence() {
  const buffer = await (await unpacked("evidence-data")).arrayBuffer();
  const size = new DataView(buffer).getUint32(0, true);
  const found = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
  let at = 4 + size;
  for (const { name, kind, length } of found.columns) {
    const Column = window[kind];
    found[name] = new Column(buffer.slice(at, (at += length * Column.BYTES_PER_ELEMENT)));
  }
  return new Evidence(found);
}

// --- predictions
class Evidence {
  constructor(found) {
    Object.assign(this, found);
    this.lower = this.texts.map((text) => text.toLowerCase());
    this.ofFact = this.facts.map(() => []);
    this.fact.forEach((fact, at) => this.ofFact[fact].push(at));
  }

  // Over all templates, or by the chosen one.
  chosen = 0;
  start = (view) => (this.chosen * this.views.length + view) * this.facts.length;
  hit = (view, fact) => this.hits[this.start(view) + fact];
  meanRank = (view, fact) => this.meanRanks[this.start(view) + fact];
  firstOf = (view, fact) => this.texts[this.first[this.start(view) + fact]];
  subjectOf = (fact) => this.texts[this.subject[fact]] || this.facts[fact];
  relationOf = (fact) => this.labels.relation[this.relation[fact]];
  golds = (fact) => this.gold[fact].map((answer) => this.texts[answer]);

  prompt(at) {
    const subject = this.texts[this.subject[this.fact[at]]];
    const capital = subject.replace(/^./su, (first) => first.toUpperCase());
    return this.texts[this.pattern[at]].replace("\ufdd0", () => subject).replace("\ufdd1", () => capital);
  }

  answers(at) {
    const score = (place) => (this.value[place] === this.missing ? null : this.value[place] / 1000);
    const answer = (place, right) => ({ text: this.texts[this.answer[place]], value: score(place), right });
    const each = Array.from({ length: this.best }, (_, n) => answer(n * this.count + at, (this.golden[at] >> n) & 1));
    return each.filter(({ text }) => text);
  }

  weights = (kept, shown, asked, { fact, view, template, weight, alone } = this) =>
    (this.chosen ? alone : weight).map((own, at) => own * (kept[fact[at]] && shown[view[at]] && asked[template[at]]));

  // As fathom.report.charts.counted does: of each combination of classes facts, means, and the share of its run.
  counted({ name, classes }, weights) {
    const [facts, hits, sure, scored] = Array.from({ length: 4 }, () => new Float64Array(classes.length));
    const { right, confidence, count, [`of ${name}`]: places } = this;
    for (let at = 0; at < count; at++) {
      const weight = weights[at];
      const place = weight ? places[at] : -1;
      if (place < 0) continue;
      facts[place] += weight;
      hits[place] += weight * right[at];
      if (confidence[at] === UNSURE) continue;
      sure[place] += (weight * confidence[at]) / (UNSURE - 1);
      scored[place] += weight;
    }
    const ofRun = Object.create(null); // a run may be called __proto__
    classes.forEach(({ run }, place) => (ofRun[run] = (ofRun[run] ?? 0) + facts[place]));
    const rows = classes.map((own, place) => {
      const means = { hit: hits[place] / facts[place], sure: scored[place] ? sure[place] / scored[place] : null };
      return { ...own, facts: facts[place], share: facts[place] / ofRun[own.run], ...means };
    });
    return rows.filter((row) => row.facts);
  }

  // As fathom.report.charts.agreeing does: the correlation of what two runs have right.
  agreeing(one, other, kept) {
    if (this.refused[`${one}-${other}`]) return [];
    const size = this.facts.length;
    const [first, second] = [one, other].map((view) => this.hits.subarray(this.start(view), this.start(view) + size));
    let [n, x, y, xx, yy, xy] = [0, 0, 0, 0, 0, 0];
    for (let fact = 0; fact < size; fact++) {
      if (!kept[fact] || Number.isNaN(first[fact] + second[fact])) continue;
      const [a, b] = [first[fact], second[fact]];
      [n, x, y, xx, yy, xy] = [n + 1, x + a, y + b, xx + a * a, yy + b * b, xy + a * b];
    }
    const spread = Math.sqrt((xx - (x * x) / n) * (yy - (y * y) / n));
    const hit = spread > 1e-9 ? (xy - (x * y) / n) / spread : null;
    const pair = (own, its) => ({ first: this.views[own].name, second: this.views[its].name, facts: n, hit });
    return one === other ? [pair(one, one)] : [pair(one, other), pair(other, one)];
  }
}

// --- choices, and the facts that they leave
class Choice {
  constructor(evidence, change) {
    Object.assign(this, { evidence, change, state: this.read() });
  }

  // name → list of texts, as in the link.
  read(given = new URLSearchParams(location.hash.slice(1))) {
    return Object.fromEntries(STATE.map((name) => [name, given.getAll(name)]));
  }

  set(changes) {
    Object.assign(this.state, changes);
    const state = new URLSearchParams();
    for (const name of STATE) for (const value of this.state[name]) state.append(name, value);
    if (this.hash === (this.hash = `#${state}`)) return; // a mouse that moves within a class
    history.replaceState(null, "", this.hash);
    this.change();
  }

  // Of each run, and of each template, whether its predictions count.
  shown = () => this.evidence.views.map(({ name }) => !this.state.hidden.includes(name));
  asked = () => this.among("template", this.evidence.labels.template);
  among = (name, labels) => labels.map((label) => !this.state[name].length || this.state[name].includes(label));

  // 1 for each fact that is left. without: names of choices that do not count, such as the brush of a chart itself.
  facts(...without) {
    const kept = new Uint8Array(this.evidence.facts.length).fill(1);
    for (const name of CHOSEN) {
      if (!this.state[name].length || name === "template" || without.includes(name)) continue;
      const test = BRUSHED.includes(name) ? this.brushed(name) : this[name](this.state[name]);
      kept.forEach((own, fact) => own && !test(fact) && (kept[fact] = 0));
    }
    return kept;
  }

  q([word]) {
    const [own, wanted] = [this.evidence, word.toLowerCase()];
    const has = own.lower.map((text) => text.includes(wanted));
    const about = (fact) => `${own.relationOf(fact)}\n${own.facts[fact]}`.toLowerCase();
    return (fact) => has[own.subject[fact]] || own.gold[fact].some((gold) => has[gold]) || about(fact).includes(wanted);
  }

  pair = () => [0, 1].map((n) => Math.max(0, Math.min(this.state.pair[n] ?? n, this.evidence.views.length - 1)) | 0);
  relation = (names) => (fact) => names.includes(this.evidence.relationOf(fact));
  slice = (names, { labels, slicesOf } = this.evidence) => (fact) =>
    names.every((name) => slicesOf[fact].includes(labels.slice.indexOf(name)));
  cell = ([name], cellOf = this.cellsOf()) => (fact) => cellOf(fact) === name;

  // Right or wrong by both runs; "" where one of the two runs did not score the fact.
  cellsOf() {
    const [[first, second], whole] = [this.pair(), (hit) => hit === 0 || hit === 1];
    const outcome = (one, other) => (one ? (other ? "both" : "first") : other ? "second" : "neither");
    const cell = (a, b) => (Number.isNaN(a + b) ? "" : whole(a) && whole(b) ? outcome(a, b) : "undecided");
    return (fact) => cell(this.evidence.hit(first, fact), this.evidence.hit(second, fact));
  }

  // A fact is in a brush where one of the runs brushed and shown has a prediction there.
  brushed(name) {
    const { labels, view, fact, facts, template } = this.evidence;
    const [classes, shown, asked] = [this.among(name, labels[name]), this.shown(), this.asked()];
    const runs = this.among(`${name}.run`, labels.run).map((own, run) => own && shown[run]);
    const found = new Uint8Array(facts.length);
    const there = (at) => runs[view[at]] && asked[template[at]];
    this.evidence[`${name}Class`].forEach((code, at) => classes[code] && there(at) && (found[fact[at]] = 1));
    return (own) => found[own];
  }
}

// --- charts
const charts = new Map();

async function drawChart({ name, brush, spec }, choice) {
  charts.get(name)?.finalize();
  const [box, actions] = [byId(`chart-${name}`), { source: false, compiled: false, editor: false }];
  const { view } = await window.vegaEmbed(box, spec, { renderer: "svg", actions, config: { background: null } });
  // For screen readers a chart is one image: its values are in the tables.
  const drawn = Object.assign(box.querySelector("svg"), { role: "img", ariaLabel: `chart: ${name}` });
  drawn.firstElementChild.ariaHidden = "true";
  box.querySelector("summary").ariaLabel = `Save the chart ${name}`;
  charts.set(name, view);
  const sets = (value) => Object.fromEntries(brush.map(([key, name]) => [name, (value[key] ?? []).map(String)]));
  // Not at once: a chart that runs cannot be filled.
  if (brush.length) view.addSignalListener("brush", (_, value) => requestAnimationFrame(() => choice.set(sets(value))));
}

// After a choice outside the chart: a chart forgets its brush only when it is drawn anew.
async function choose(evidence, choice, changes) {
  const stale = evidence.drawings.filter((own) => own.of in changes && charts.get(own.name).signal("brush")[own.of]);
  for (const name of BRUSHED) if (name in changes) changes[`${name}.run`] ??= [];
  choice.set(changes);
  await Promise.all(stale.map((drawing) => drawChart(drawing, choice)));
  if (stale.length) choice.change(true);
}

function fillCharts(evidence, choice) {
  const [shown, asked, kept] = [choice.shown(), choice.asked(), choice.kept];
  const views = evidence.views.map((_, view) => view).filter((view) => shown[view]);
  const pairs = () => views.flatMap((one, at) => views.slice(at).flatMap((two) => evidence.agreeing(one, two, kept)));
  const weights = evidence.weights(kept, shown, asked);
  for (const drawing of evidence.drawings) {
    const own = choice.state[drawing.of]?.length ? evidence.weights(choice.facts(drawing.of), shown, asked) : weights;
    const rows = drawing.classes.length ? evidence.counted(drawing, own) : pairs();
    byId(`chart-${drawing.name}`).hidden = !rows.length;
    if (rows.length) charts.get(drawing.name).data("counted", rows).run();
  }
}

// --- the evidence
function markOf(evidence, view, fact) {
  const [hit, rank] = [evidence.hit(view, fact), evidence.meanRank(view, fact)];
  if (Number.isNaN(hit)) return "–";
  const mark = { 0: "✗", 1: "✓" }[hit] ?? percent(hit);
  return Number.isFinite(rank) ? `${mark} (${Number(rank.toFixed(1))})` : mark;
}

function evidenceTable(DataTable, evidence, choice) {
  const text = { searchable: false, type: "string", render: { display: (name) => isolated(name, 120) } };
  const column = (data, more) => ({ ...text, data, ...more });
  const first = { display: (name, _, fact) => opener(name, { fact: evidence.facts[fact] }) };
  const place = (view, fact) => evidence.meanRank(view, fact) || -evidence.hit(view, fact) || Infinity;
  const sorted = (view) => ({ type: "num", render: { sort: (_, __, fact) => place(view, fact) } });
  const marks = evidence.views.map((_, view) => column((fact) => markOf(evidence, view, fact), sorted(view)));
  const format = { body: (raw) => raw, header: (_, __, head) => head.textContent };
  const exportOptions = { format, orthogonal: "export" };
  const save = { extend: "csv", text: "Save as CSV", filename: "facts", exportOptions };
  return new DataTable("#evidence-table", {
    data: evidence.facts.map((_, fact) => fact),
    ...TABLE,
    columns: [
      column(evidence.subjectOf, { render: first }),
      column(evidence.relationOf),
      column((fact) => evidence.golds(fact).join("; ")),
      column((fact) => evidence.facts[fact], { visible: false }),
      ...marks,
      ...evidence.views.map((_, view) => column((fact) => evidence.firstOf(view, fact), { visible: false })),
    ],
    layout: { topStart: "pageLength", topEnd: { buttons: [save] } },
    drawCallback: () => markOpen(choice),
    language: { info: "_START_ to _END_ of _TOTAL_ facts", infoFiltered: "(of _MAX_)", lengthMenu: "_MENU_ a page" },
  }).search.fixed("chosen", (_, fact) => Boolean(choice.kept?.[fact]));
}

const markOpen = ({ state: { open } }) =>
  all("[data-fact]").forEach((button) => (button.ariaExpanded = String(button.dataset.fact === open[0])));

// One fact: a line for each run, a column for each template.
function factGrid(evidence, choice) {
  const fact = evidence.facts.indexOf(choice.state.open[0]);
  if (fact < 0) return make("p", {}, "Choose a subject in the table to see every prompt and answer.");
  const [places, { template }] = [evidence.ofFact[fact], evidence];
  const templates = Object.keys(evidence.labels.template).filter((code) => places.some((at) => template[at] === +code));
  const heads = templates.map((code) => make("th", { scope: "col" }, `template ${evidence.labels.template[code]}`));
  const lines = evidence.views.map(({ name, probe, scoring }, view) => {
    const own = (code) => places.filter((at) => evidence.view[at] === view && template[at] === +code);
    const cells = templates.map((code) => make("td", {}, ...own(code).map((at) => answerList(evidence, at))));
    const head = make("th", { scope: "row" }, isolated(name), make("small", {}, `${probe}, ${scoring}`));
    return choice.shown()[view] && cells.some((cell) => cell.hasChildNodes()) ? [make("tr", {}, head, ...cells)] : [];
  });
  const about = [evidence.relationOf(fact), `right: ${evidence.golds(fact).join("; ")}`, evidence.facts[fact]];
  const shown = byId("one-fact").content.cloneNode(true);
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
  const lines = evidence.answers(at).map(({ text, value, right }) => {
    const suffix = value === null ? "" : ` ${shown(value)}`;
    return make("li", { className: right ? "right" : "" }, isolated(text), suffix, right ? " ✓" : "");
  });
  const [rank, credit] = [evidence.rank[at], `credit ${percent(evidence.right[at])}`];
  const ranked = rank < 0 ? `beyond rank ${-rank}` : `rank of the right answer: ${Number(rank.toFixed(1))}`;
  const note = make("p", { className: "score" }, Number.isNaN(rank) ? credit : ranked);
  return make("div", {}, prompt, make("ol", {}, ...lines), note);
}

function sliceTable(DataTable) {
  const part = { _: ({ label }) => label, display: ({ label, key, value }) => opener(label, { key, value }) };
  const sort = (text) => Number(/[-+\d.]+/.exec(text) ?? Infinity);
  const column = (place) => ({ data: (own) => own.cells[place], className: "number", type: "num", render: { sort } });
  return new DataTable("#slice-table", {
    ...TABLE,
    paging: false,
    columns: [{ data: (own) => own, render: part }, ...[0, 1, 2, 3, 4, 5].map(column)],
    layout: { topStart: null, topEnd: "search", bottomStart: null },
    language: { search: "Search parts", emptyTable: "nothing to compare" },
  });
}

function fillPair(evidence, choice) {
  const [pair, kept, cellOf] = [choice.pair().join("-"), choice.facts("cell"), choice.cellsOf()];
  byId("of-pair").textContent = evidence.refused[pair] ?? evidence.ofPair[pair] ?? "";
  const cells = evidence.refused[pair] ? [] : evidence.facts.map((_, fact) => kept[fact] && cellOf(fact));
  for (const button of all("[data-cell]")) {
    button.querySelector("output").textContent = cells.filter((own) => own === button.dataset.cell).length;
    button.setAttribute("aria-pressed", String(choice.state.cell[0] === button.dataset.cell));
  }
}

// --- controls
function fillControls(choice) {
  const [{ state }, only] = [choice, (value = "", ...others) => (others.length ? "" : value)];
  for (const field of all("[data-choice]:not(:focus)")) field.value = only(...state[field.dataset.choice]);
  for (const field of all("[data-side]")) field.value = choice.pair()[field.dataset.side];
  for (const box of all("[data-run]")) box.checked = !state.hidden.includes(box.value);
  const chosen = [...CHOSEN, "hidden"].filter((name) => state[name].length);
  const chips = chosen.map((name) => {
    const runs = state[`${name}.run`]?.length ? ` of ${state[`${name}.run`].join(", ")}` : "";
    const says = isolated(`${name === "q" ? "search" : name}: ${state[name].join(", ")}${runs}`, 120);
    return make("button", { type: "button", data: { back: name } }, says, " ×");
  });
  byId("chips").replaceChildren(...chips);
  byId("clear").disabled = !chosen.length;
}

function listen(evidence, choice) {
  document.addEventListener("input", ({ target: { dataset, value } }) => {
    if (dataset.choice) choose(evidence, choice, { [dataset.choice]: value ? [value] : [] });
    if (dataset.side) choice.set({ pair: Object.assign(choice.pair(), { [dataset.side]: value }) });
    if ("run" in dataset) choice.set({ hidden: all("[data-run]:not(:checked)").map((box) => box.value) });
  });
  document.addEventListener("click", ({ target }) => {
    const { cell, back, fact, key, value, theme, to } = target.closest("button")?.dataset ?? {};
    const toggle = (name, own) => choice.set({ [name]: choice.state[name][0] === own ? [] : [own] });
    if (theme) document.documentElement.dataset.theme = theme;
    if (cell) toggle("cell", cell);
    if (fact) toggle("open", fact);
    if (fact || to) byId(to ?? "fact")[to ? "focus" : "scrollIntoView"]();
    if (key) choose(evidence, choice, key === "relation" ? { relation: [value] } : { slice: [`${key}: ${value}`] });
    if (back) choose(evidence, choice, Object.fromEntries((back === "all" ? STATE : [back]).map((own) => [own, []])));
  });
  addEventListener("hashchange", () => choose(evidence, choice, choice.read()));
}

async function start() {
  const [evidence, DataTable] = await Promise.all([readEvidence(), loadLibraries()]);
  let [pair, last, left, hidden = ""] = [];
  // Only what changes is counted and drawn again; a table that is drawn goes back to its first page.
  const choice = new Choice(evidence, (anew) => {
    if (last !== (last = JSON.stringify({ ...choice.state, open: [] })) || anew) {
      if (evidence.chosen !== (evidence.chosen = evidence.labels.template.indexOf(choice.state.template[0]) + 1))
        facts.rows().invalidate("data");
      choice.kept = choice.facts();
      fillCharts(evidence, choice);
      fillControls(choice);
      fillPair(evidence, choice);
      if (pair !== (pair = choice.pair().join("-"))) slices?.clear().rows.add(evidence.slices[pair] ?? []).draw();
      if (hidden !== (hidden = String(choice.state.hidden)))
        choice.shown().forEach((own, view) => facts.column(4 + view).visible(own, false));
      if (left !== (left = `${choice.kept.join("")} ${evidence.chosen}`)) facts.draw();
      byId("count").textContent = `${choice.kept.filter(Boolean).length} of ${evidence.facts.length} facts`;
    }
    byId("fact").replaceChildren(factGrid(evidence, choice));
    markOpen(choice);
  });
  const [facts, slices] = [evidenceTable(DataTable, evidence, choice), byId("slice-table") && sliceTable(DataTable)];
  await Promise.all(evidence.drawings.map((drawing) => drawChart(drawing, choice)));
  listen(evidence, choice);
  choice.change();
  if (choice.state.open.length) byId("fact").scrollIntoView();
  window.fathom = { evidence, choice, charts };
  document.body.dataset.ready = "yes";
}

start().catch((error) => {
  byId("failed").textContent = `The interactive part cannot be shown here: ${error.message}. The tables are complete.`;
  throw error;
});
