// Glue between the evidence and the libraries that show it: what is chosen, what that leaves, and the link to it.
// Whatever comes from data or models is set as text, never as HTML.

const NOTHING = "–";
const UNSURE = 65535; // a confidence that cannot be told
const BRUSHED = ["rank", "confidence", "length"];
const CHOSEN = ["q", "show", "relation", "slice", "template", "cell", ...BRUSHED];
const STATE = [...CHOSEN, ...BRUSHED.map((name) => `${name}.run`), "hidden", "pair", "open"];

const byId = (id) => document.getElementById(id);
const all = (selector) => [...document.querySelectorAll(selector)];
const percent = (share) => (Number.isFinite(share) ? `${(100 * share).toFixed(1)} %` : NOTHING);

function make(tag, attributes = {}, ...children) {
  const node = Object.assign(document.createElement(tag), attributes);
  node.append(...children.filter((child) => child !== null));
  return node;
}

// Names may run from right to left, or never end.
const named = (text, most = Infinity) =>
  make("bdi", { textContent: text.length > most ? `${text.slice(0, most)}…` : text });

// --- reading

async function unpacked(id) {
  const bytes = Uint8Array.from(atob(byId(id).textContent), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")));
}

async function loadTables() {
  document.head.prepend(make("style", { textContent: await (await unpacked("table-style")).text() }));
  const code = new Blob([await (await unpacked("table-code")).text()], { type: "text/javascript" });
  return (await import(URL.createObjectURL(code))).default;
}

async function loadCharts() {
  document.head.append(make("script", { textContent: await (await unpacked("charts-code")).text() }));
}

// A header in JSON behind its length, then columns of numbers.
async function readEvidence() {
  const buffer = await (await unpacked("evidence-data")).arrayBuffer();
  const size = new DataView(buffer).getUint32(0, true);
  const found = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
  const kinds = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, i1: Int8Array, i2: Int16Array, i4: Int32Array };
  let at = 4 + size;
  for (const { name, kind, length } of found.columns) {
    const Column = kinds[kind] ?? Float32Array;
    found[name] = new Column(buffer.slice(at, (at += length * Column.BYTES_PER_ELEMENT)));
  }
  return new Evidence(found);
}

// --- what the runs said

class Evidence {
  constructor(found) {
    Object.assign(this, found);
    const relation = this.fact.map((fact) => this.relation[fact]);
    const { view: run, templates: template, ranks: rank, confidences: confidence, lengths: length } = this;
    this.codes = { run, relation, template, rank, confidence, length };
    this.ofFact = this.facts.map(() => []);
    this.fact.forEach((fact, at) => this.ofFact[fact].push(at));
  }

  hit(view, fact) {
    return this.hits[view * this.facts.length + fact];
  }

  subjectOf(fact) {
    return this.texts[this.subject[fact]] || this.facts[fact];
  }

  relationOf(fact) {
    return this.labels.relation[this.relation[fact]];
  }

  golds(fact) {
    return this.gold[fact].map((answer) => this.texts[answer]);
  }

  prompt(at) {
    const subject = this.texts[this.subject[this.fact[at]]];
    const capital = subject.slice(0, 1).toUpperCase() + subject.slice(1);
    const pattern = this.texts[this.pattern[at]];
    return pattern.replace("[X]", () => subject).replace("[^X]", () => capital);
  }

  answers(at) {
    const places = Array.from({ length: this.best }, (_, place) => place * this.count + at);
    const written = places.filter((place) => this.answer[place]);
    const told = (place) => (this.value[place] === this.untold ? null : this.value[place] / 1000);
    return written.map((place) => ({ text: this.texts[this.answer[place]], value: told(place) }));
  }

  // As fathom.report.charts.counted does: of each combination of classes facts, means, and the share of its run.
  counted(keys, kept, predictions) {
    const shape = keys.map((key) => this.labels[key].length);
    const size = shape.reduce((product, length) => product * length, 1);
    const [facts, hits, sure, told] = Array.from({ length: 4 }, () => new Float64Array(size));
    const ofRun = new Float64Array(this.views.length);
    const codes = keys.map((key) => this.codes[key]);
    for (let at = 0; at < this.count; at++) {
      const weight = this.weight[at];
      if (!weight || !kept[this.fact[at]] || !predictions[at] || codes.some((own) => own[at] < 0)) continue;
      const place = codes.reduce((number, own, key) => number * shape[key] + own[at], 0);
      facts[place] += weight;
      hits[place] += weight * this.right[at];
      ofRun[this.view[at]] += weight;
      if (this.confidence[at] === UNSURE) continue;
      sure[place] += (weight * this.confidence[at]) / (UNSURE - 1);
      told[place] += weight;
    }
    const rows = [];
    facts.forEach((count, place) => {
      if (!count) return;
      const row = { facts: count, hit: hits[place] / count, confidence: told[place] ? sure[place] / told[place] : null };
      for (let key = keys.length - 1, rest = place; key >= 0; rest = Math.floor(rest / shape[key--]))
        row[keys[key]] = this.labels[keys[key]][rest % shape[key]];
      row.share = count / ofRun[this.labels.run.indexOf(row.run)];
      rows.push(row);
    });
    return rows;
  }

  // As fathom.report.charts.agreeing does: the correlation of what two runs have right.
  agreeing(kept, shown) {
    const views = this.views.map((_, view) => view).filter((view) => shown[view]);
    return views.flatMap((one) => views.map((other) => this.alike(one, other, kept)));
  }

  alike(one, other, kept) {
    let [n, x, y, xx, yy, xy] = [0, 0, 0, 0, 0, 0];
    for (let fact = 0; fact < kept.length; fact++) {
      const [a, b] = [this.hit(one, fact), this.hit(other, fact)];
      if (!kept[fact] || Number.isNaN(a + b)) continue;
      [n, x, y, xx, yy, xy] = [n + 1, x + a, y + b, xx + a * a, yy + b * b, xy + a * b];
    }
    const spread = Math.sqrt((xx - (x * x) / n) * (yy - (y * y) / n));
    const hit = spread > 1e-9 ? (xy - (x * y) / n) / spread : null;
    return { first: this.views[one].name, second: this.views[other].name, facts: n, hit };
  }
}

// --- what is chosen, and what that leaves

class Choice {
  // state: name → list of texts, as they stand in the link.
  constructor(evidence, change) {
    Object.assign(this, { evidence, change });
    this.read();
  }

  read() {
    const given = new URLSearchParams(location.hash.slice(1));
    this.state = Object.fromEntries(STATE.map((name) => [name, given.getAll(name)]));
  }

  set(changes) {
    Object.assign(this.state, changes);
    const told = new URLSearchParams();
    for (const name of STATE) for (const value of this.state[name]) told.append(name, value);
    history.replaceState(null, "", `#${told}`);
    this.change();
  }

  get pair() {
    const last = this.evidence.views.length - 1;
    return [0, 1].map((side) => Math.min(Number(this.state.pair[side] ?? side) || 0, last));
  }

  get shown() {
    return this.evidence.views.map(({ name }) => !this.state.hidden.includes(name));
  }

  // 1 for each prediction that counts: of runs that are shown, by the template chosen.
  predictions() {
    const [{ view, codes, labels }, shown] = [this.evidence, this.shown];
    const templates = this.state.template.map((name) => labels.template.indexOf(name));
    const asked = (at) => !templates.length || templates.includes(codes.template[at]);
    return Uint8Array.from(view, (own, at) => shown[own] && asked(at));
  }

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
    const has = own.texts.map((text) => text.toLowerCase().includes(wanted));
    const named = (fact) => `${own.relationOf(fact)}\n${own.facts[fact]}`.toLowerCase().includes(wanted);
    return (fact) => has[own.subject[fact]] || own.gold[fact].some((answer) => has[answer]) || named(fact);
  }

  relation(names) {
    return (fact) => names.includes(this.evidence.relationOf(fact));
  }

  slice(slices) {
    const [{ groups, texts }, wanted] = [this.evidence, slices.map((slice) => slice.split("="))];
    const values = (key, fact) => texts[groups[key]?.[fact] ?? 0].split(";").map((value) => value.trim());
    return (fact) => wanted.every(([key, ...value]) => values(key, fact).includes(value.join("=")));
  }

  show([what]) {
    const [{ ofFact, reason, view, views }, shown] = [this.evidence, this.shown];
    if (what === "unscored") return (fact) => ofFact[fact].some((at) => reason[at] && shown[view[at]]);
    const wanted = what === "all" ? 1 : 0;
    const own = (fact) => views.map((_, number) => this.evidence.hit(number, fact)).filter((_, number) => shown[number]);
    return (fact) => own(fact).some((hit) => hit === wanted) && own(fact).every((hit) => hit === wanted || hit !== hit);
  }

  cell([name]) {
    return (fact) => this.cellOf(fact) === name;
  }

  // Of McNemar's table; "" where one of the two runs did not score the fact.
  cellOf(fact) {
    const [one, other] = this.pair.map((view) => this.evidence.hit(view, fact));
    if (Number.isNaN(one + other)) return "";
    if (![one, other].every((hit) => hit === 0 || hit === 1)) return "undecided";
    return one ? (other ? "both" : "first") : other ? "second" : "neither";
  }

  // A fact is in a brush where one of the runs brushed, else shown, has a prediction there.
  brushed(name) {
    const [{ labels, codes, view, fact, facts }, runs] = [this.evidence, this.state[`${name}.run`]];
    const classes = this.state[name].map((label) => labels[name].indexOf(label));
    const among = runs.length ? labels.run.map((label) => runs.includes(label)) : this.shown;
    const found = new Uint8Array(facts.length);
    codes[name].forEach((code, at) => among[view[at]] && classes.includes(code) && (found[fact[at]] = 1));
    return (own) => found[own];
  }
}

// --- charts

const charts = new Map();

async function drawChart({ name, brush, spec }, choice) {
  charts.get(name)?.finalize();
  const actions = { export: true, source: false, compiled: false, editor: false };
  const { view } = await window.vegaEmbed(byId(`chart-${name}`), spec, { renderer: "svg", actions });
  charts.set(name, view);
  const of = brush.at(-1);
  const told = (value, key) => (value[key] ?? []).map(String);
  if (brush.length)
    view.addSignalListener("brush", (_, value) =>
      choice.set({ [of]: told(value, of), ...(brush[0] === "run" ? { [`${of}.run`]: told(value, "run") } : {}) }),
    );
}

function fillCharts(evidence, choice, kept) {
  const [predictions, shown] = [choice.predictions(), choice.shown];
  for (const { name, keys, brush } of evidence.drawings) {
    const own = choice.state[brush.at(-1)]?.length ? choice.facts(brush.at(-1)) : kept;
    const rows = keys[0] === "first" ? evidence.agreeing(own, shown) : evidence.counted(keys, own, predictions);
    charts.get(name)?.data("counted", rows).run();
  }
}

// --- the evidence

function opener(text, pressed, onclick) {
  const button = make("button", { type: "button", className: "opener", onclick }, named(text, 120));
  button.setAttribute("aria-expanded", String(pressed));
  return button;
}

function markOf(evidence, view, fact) {
  const [hit, rank] = [evidence.hit(view, fact), evidence.meanRanks[view * evidence.facts.length + fact]];
  if (Number.isNaN(hit)) return NOTHING;
  const mark = { 0: "✗", 1: "✓" }[hit] ?? percent(hit);
  return Number.isFinite(rank) ? `${mark} ${Number(rank.toFixed(1))}` : mark;
}

function evidenceTable(DataTable, evidence, choice) {
  const column = (title, data, more = {}) => ({ title, data, render: DataTable.render.text(), ...more });
  const open = (fact) => choice.set({ open: choice.state.open[0] === evidence.facts[fact] ? [] : [evidence.facts[fact]] });
  const isOpen = (fact) => choice.state.open[0] === evidence.facts[fact];
  const first = { _: (name) => name, display: (name, _, { fact }) => opener(name, isOpen(fact), () => open(fact)) };
  const rank = (view, fact) => [evidence.meanRanks[view * evidence.facts.length + fact], -evidence.hit(view, fact)];
  const sorted = (view) => ({ _: (mark) => mark, sort: (_, __, { fact }) => rank(view, fact).find((own) => own === own) });
  const table = new DataTable("#evidence-table", {
    data: evidence.facts.map((_, fact) => ({ fact })),
    columns: [
      column("Subject", ({ fact }) => evidence.subjectOf(fact), { render: first }),
      column("Relation", ({ fact }) => evidence.relationOf(fact)),
      column("Right answer", ({ fact }) => evidence.golds(fact).join("; ")),
      column("Fact", ({ fact }) => evidence.facts[fact], { visible: false }),
      ...evidence.views.map(({ heading }, view) =>
        column(heading, ({ fact }) => markOf(evidence, view, fact), { render: sorted(view) }),
      ),
      ...evidence.views.map(({ heading }, view) =>
        column(`Answer of ${heading}`, ({ fact }) => firstAnswer(evidence, view, fact), { visible: false }),
      ),
    ],
    deferRender: true,
    autoWidth: false,
    pageLength: 25,
    order: [],
    layout: { topStart: "pageLength", topEnd: { buttons: [{ extend: "csv", text: "Save as CSV", filename: "facts" }] } },
    language: { info: "_START_ to _END_ of _TOTAL_ facts", infoFiltered: "(of _MAX_)", lengthMenu: "_MENU_ a page" },
  });
  table.search.fixed("chosen", (_, { fact }) => Boolean(choice.kept?.[fact]));
  return table;
}

function firstAnswer(evidence, view, fact) {
  const [at] = evidence.ofFact[fact].filter((own) => evidence.view[own] === view);
  return at === undefined ? "" : (evidence.answers(at)[0]?.text ?? evidence.texts[evidence.reason[at]]);
}

// One fact: a line for each run, a column for each template.
function factGrid(evidence, choice) {
  const fact = evidence.facts.indexOf(choice.state.open[0]);
  if (fact < 0) return make("p", {}, "Choose a subject in the table to see every prompt and answer.");
  const [places, { template }] = [evidence.ofFact[fact], evidence.codes];
  const templates = [...new Set(places.map((at) => template[at]))].sort((one, other) => one - other);
  const heads = templates.map((code) => make("th", { scope: "col" }, `template ${evidence.labels.template[code]}`));
  const lines = evidence.views.map(({ name, probe, scoring }, view) => {
    const own = (code) => places.filter((at) => evidence.view[at] === view && template[at] === code);
    const cells = templates.map((code) => make("td", {}, ...own(code).map((at) => answerList(evidence, at))));
    const head = make("th", { scope: "row" }, named(name), make("small", {}, `${probe}, ${scoring}`));
    return places.some((at) => evidence.view[at] === view) ? make("tr", {}, head, ...cells) : null;
  });
  const about = [evidence.relationOf(fact), `right: ${evidence.golds(fact).join("; ")}`, evidence.facts[fact]];
  const head = make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "run"), ...heads));
  const grid = make("table", { className: "grid" }, head, make("tbody", {}, ...lines.filter(Boolean)));
  const region = { className: "scroll", tabIndex: 0, role: "region", ariaLabel: "predictions of this fact" };
  const title = make("h3", {}, named(evidence.subjectOf(fact)));
  return make("div", {}, title, make("p", {}, named(about.join(" · "))), make("div", region, grid));
}

function answerList(evidence, at) {
  const prompt = make("p", { className: "prompt" }, named(evidence.prompt(at)));
  const why = evidence.texts[evidence.reason[at]];
  if (why) return make("div", {}, prompt, make("p", { className: "unscored" }, named(`unscored: ${why}`)));
  const golds = evidence.golds(evidence.fact[at]);
  const shown = evidence.confidence[at] === UNSURE ? (value) => value.toFixed(2) : percent;
  const lines = evidence.answers(at).map(({ text, value }) => {
    const right = golds.includes(text);
    return make("li", { className: right ? "right" : "" }, named(text), ` ${value === null ? "" : shown(value)}`, right ? " ✓" : "");
  });
  const rank = evidence.rank[at];
  const ranked = rank < 0 ? `right answer beyond rank ${-rank}` : `rank of the right answer: ${Number(rank.toFixed(1))}`;
  const told = Number.isNaN(rank) ? `credit ${percent(evidence.right[at])}` : ranked;
  return make("div", {}, prompt, make("ol", {}, ...lines), make("p", { className: "told" }, told));
}

// --- two runs

function sliceTable(DataTable, choice) {
  const chosen = ({ key, value }) => (key === "relation" ? { relation: [value] } : { slice: [`${key}=${value}`] });
  const display = (name, _, part) => opener(name, false, () => choice.set(chosen(part)));
  const titles = ["Facts", "First", "Second", "Difference, points", "95 % interval", "p (Holm)"];
  return new DataTable("#slice-table", {
    data: [],
    columns: [
      { title: "Part", data: ({ key, value }) => `${key}: ${value}`, render: { _: (name) => name, display } },
      ...titles.map((title, place) => ({ title, data: ({ told }) => told[place], className: "number" })),
    ],
    autoWidth: false,
    order: [],
    layout: { topStart: null, topEnd: "search" },
    language: { search: "Search parts", info: "_START_ to _END_ of _TOTAL_ parts", emptyTable: "nothing to compare" },
  });
}

function fillPair(evidence, choice) {
  const kept = choice.facts("cell");
  const cells = evidence.facts.map((_, fact) => (kept[fact] ? choice.cellOf(fact) : ""));
  for (const button of all("[data-cell]")) {
    const { cell } = button.dataset;
    button.querySelector("output").textContent = cells.filter((own) => own === cell).length;
    button.setAttribute("aria-pressed", String(choice.state.cell[0] === cell));
    button.onclick = () => choice.set({ cell: choice.state.cell[0] === cell ? [] : [cell], pair: choice.pair.map(String) });
  }
}

// --- controls

function fillControls(evidence, choice) {
  const { state } = choice;
  for (const field of all("[data-choice]")) {
    const name = field.dataset.choice;
    if (field !== document.activeElement) field.value = state[name].length === 1 ? state[name][0] : "";
    field.oninput = () => choice.set({ [name]: field.value ? [field.value] : [], ...(BRUSHED.includes(name) && { [`${name}.run`]: [] }) });
  }
  for (const field of all("[data-side]")) {
    field.value = choice.pair[field.dataset.side];
    field.oninput = () => choice.set({ pair: choice.pair.map((own, side) => (side === Number(field.dataset.side) ? field.value : String(own))) });
  }
  for (const box of all("[data-run]")) {
    const others = state.hidden.filter((name) => name !== box.value);
    box.checked = !state.hidden.includes(box.value);
    box.onchange = () => choice.set({ hidden: box.checked ? others : [...others, box.value] });
  }
  const back = (...names) => takeBack(evidence, choice, names);
  const chip = (name) => {
    const runs = state[`${name}.run`]?.length ? ` of ${state[`${name}.run`].join(", ")}` : "";
    const label = `${name === "q" ? "search" : name}: ${state[name].join(", ")}${runs}`;
    return make("button", { type: "button", onclick: () => back(name, `${name}.run`) }, named(label, 120), " ×");
  };
  const chosen = CHOSEN.filter((name) => state[name].length);
  byId("chips").replaceChildren(...chosen.map(chip));
  byId("clear").disabled = !chosen.length && !state.hidden.length;
  byId("clear").onclick = () => back(...STATE.filter((name) => name !== "pair"));
}

// A chart forgets its brush only when it is drawn anew.
async function takeBack(evidence, choice, names) {
  const drawn = evidence.drawings.filter(({ brush }) => names.includes(brush.at(-1)));
  choice.set(Object.fromEntries(names.filter((name) => STATE.includes(name)).map((name) => [name, []])));
  for (const drawing of drawn) await drawChart(drawing, choice);
  if (drawn.length) choice.change();
}

function switchTheme() {
  const { dataset } = document.documentElement;
  const dark = dataset.theme ? dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  dataset.theme = dark ? "light" : "dark";
}

async function start() {
  byId("theme").onclick = switchTheme;
  const [evidence, DataTable] = await Promise.all([readEvidence(), loadTables(), loadCharts()]);
  let pair = "";
  const choice = new Choice(evidence, () => {
    const began = performance.now();
    choice.kept = choice.facts();
    fillCharts(evidence, choice, choice.kept);
    fillControls(evidence, choice);
    fillPair(evidence, choice);
    if (pair !== (pair = choice.pair.join("-"))) slices.clear().rows.add(evidence.slices[pair] ?? []).draw();
    facts.rows({ page: "current" }).invalidate();
    facts.draw();
    byId("fact").replaceChildren(factGrid(evidence, choice));
    byId("count").textContent = `${choice.kept.reduce((sum, own) => sum + own, 0)} of ${evidence.facts.length} facts`;
    document.body.dataset.took = performance.now() - began;
  });
  const [facts, slices] = [evidenceTable(DataTable, evidence, choice), sliceTable(DataTable, choice)];
  for (const drawing of evidence.drawings) await drawChart(drawing, choice);
  addEventListener("hashchange", () => (choice.read(), choice.change()));
  choice.change();
  window.fathom = { evidence, choice, charts };
  document.body.dataset.ready = "yes";
}

start().catch((error) => {
  byId("failed").textContent = `The interactive part cannot be shown here: ${error.message}. The tables are complete.`;
  throw error;
});
