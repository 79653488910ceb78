// What the reader chose, the facts that this leaves, and the page's link, which keeps it.

export const BRUSHED = ["rank", "confidence", "length"];
const CHOSEN = ["q", "relation", "slice", "template", "cell", ...BRUSHED];
export const FILTERS = [...CHOSEN, ...BRUSHED.map((name) => `${name}.run`), "hidden"];
export const CHIPS = [...CHOSEN, "hidden"];
const STATE = [...FILTERS, "pair", "open", "tab", "metric", "sort"];

export class Choice {
  // change: called after each choice.
  constructor(evidence, change) {
    Object.assign(this, { evidence, change, state: this.read() });
  }

  // name → list of texts, as in the link.
  read(given = new URLSearchParams(location.hash.slice(1))) {
    [this.hash, this.going] = [location.hash, ""];
    return Object.fromEntries(STATE.map((name) => [name, given.getAll(name)]));
  }

  // Each choice is a step back in the browser's history. going: one of many, as while typing or dragging, which
  // together are one step.
  set(changes, going = "") {
    Object.assign(this.state, changes);
    const state = new URLSearchParams();
    for (const name of STATE) for (const value of this.state[name]) state.append(name, value);
    if (this.hash === (this.hash = `#${state}`)) return; // a mouse that moves within a class
    history[going && going === this.going ? "replaceState" : "pushState"](null, "", this.hash);
    this.going = going;
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
