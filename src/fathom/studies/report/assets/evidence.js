import { unpacked } from "./dom.js";

// Facts and predictions in columns, and what they say about each run and fact.

export const UNSURE = 65535; // an unknown confidence
const NOT_SCORED = 65535; // a token that does not count

// The length of a JSON header, the header, then columns of numbers.
export async function readEvidence() {
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

// Values of a prediction by its mean rank and the number of ties, expected over the orders of ties. A rank of −k is
// only known to be beyond k.
const harmonic = [0];
function harmonicTo(number) {
  while (harmonic.length <= number) harmonic.push(harmonic.at(-1) + 1 / harmonic.length);
  return harmonic[number];
}
const OF_RANK = {
  "hits@10": (rank, ties) => {
    if (rank < 0) return rank <= -10 ? 0 : NaN;
    return Math.max(0, Math.min(1, (10 - (rank - ties / 2) + 1) / (ties + 1)));
  },
  mrr: (rank, ties) => {
    if (!(rank > 0)) return NaN;
    const [first, last] = [Math.round(rank - ties / 2), Math.round(rank + ties / 2)];
    return first === last ? 1 / first : (harmonicTo(last) - harmonicTo(first - 1)) / (last - first + 1);
  },
};

// Thousandths; the least number of the column's kind is none.
function valueAt(column, place) {
  const missing = -(2 ** (8 * column.BYTES_PER_ELEMENT - 1));
  return column[place] === missing ? null : column[place] / 1000;
}

class Evidence {
  constructor(found) {
    Object.assign(this, found);
    this.lower = this.texts.map((text) => text.toLowerCase());
    this.ofFact = this.facts.map(() => []);
    this.fact.forEach((fact, at) => this.ofFact[fact].push(at));
    this.byMetric = { accuracy: this.right };
    this.choose();
  }

  // Over all templates, or by the chosen one; in the chosen metric.
  choose(template = "", metric = "accuracy") {
    if (this.by === (this.by = `${metric} ${template}`)) return;
    this.chosen = this.labels.template.indexOf(template);
    this.metric = metric;
    this.values = this.byMetric[metric] ??= this.rank.map((rank, at) => OF_RANK[metric](rank, this.ties[at]));
    this.hits = this.meansByFact(this.right);
    this.meanRanks = this.meansByFact(this.rank.map((rank) => (rank < 0 ? Infinity : rank)));
    this.means = metric === "accuracy" ? this.hits : this.meansByFact(this.values);
  }

  // The mean of each fact in each view; NaN if the fact does not count.
  meansByFact(values) {
    const [means, counts] = Array.from({ length: 2 }, () => new Float64Array(this.views.length * this.facts.length));
    const weights = this.chosen < 0 ? this.weight : this.alone;
    for (let at = 0; at < this.count; at++) {
      if (!weights[at] || (this.chosen >= 0 && this.template[at] !== this.chosen)) continue;
      const place = this.view[at] * this.facts.length + this.fact[at];
      means[place] += values[at];
      counts[place]++;
    }
    return means.map((sum, place) => sum / counts[place]);
  }

  hit = (view, fact) => this.hits[view * this.facts.length + fact];
  meanRank = (view, fact) => this.meanRanks[view * this.facts.length + fact];
  subjectOf = (fact) => this.texts[this.subject[fact]] || this.facts[fact];
  relationOf = (fact) => this.labels.relation[this.relation[fact]];
  golds = (fact) => this.gold[fact].map((answer) => this.texts[answer]);
  asked = (at) => this.chosen < 0 || this.template[at] === this.chosen;

  // The best answer, or why there is none.
  firstOf(view, fact) {
    const at = this.ofFact[fact].find((own) => this.view[own] === view && this.asked(own));
    return at === undefined ? "" : this.texts[this.answer[at] || this.reason[at]];
  }

  prompt(at) {
    const subject = this.texts[this.subject[this.fact[at]]];
    const capital = subject.replace(/^./su, (first) => first.toUpperCase());
    return this.texts[this.pattern[at]].replace("\ufdd0", () => subject).replace("\ufdd1", () => capital);
  }

  templateText = (at) => this.texts[this.pattern[at]].replace(/[\ufdd0\ufdd1]/u, "[X]").trim().split("\n").at(-1);

  answers(at) {
    const answer = (place, right) => ({
      text: this.texts[this.answer[place]],
      value: valueAt(this.value, place),
      right,
    });
    const each = Array.from({ length: this.listed }, (_, n) => answer(n * this.count + at, (this.golden[at] >> n) & 1));
    return each.filter(({ text }) => text);
  }

  // The best right answer that is not among these; undefined if it is, or if it has no score.
  unlisted(at) {
    if (!this.best[at]) return undefined;
    return { text: this.texts[this.best[at]], value: valueAt(this.bestValue, at), right: 1 };
  }

  // Tokens of the statements with the right answer and with the first one, if the run kept them; the second is empty
  // where both are the same. value: log-probability in nats; null where it does not count.
  tokens(at) {
    if (!this.tokenCount) return [[], []];
    if (!this.tokenEnd) {
      let end = 0;
      this.tokenEnd = Uint32Array.from(this.tokenCount, (count) => (end += count));
    }
    const nats = (place) => (this.tokenValue[place] === NOT_SCORED ? null : -this.tokenValue[place] / 100);
    const token = (place) => ({ text: this.texts[this.tokenText[place]], value: nats(place) });
    return [2 * at, 2 * at + 1].map((own) => {
      const [end, count] = [this.tokenEnd[own], this.tokenCount[own]];
      return Array.from({ length: count }, (_, number) => token(end - count + number));
    });
  }

  weights = (kept, shown, asked, { fact, view, template, weight, alone } = this) =>
    (this.chosen < 0 ? weight : alone).map(
      (own, at) => own * (kept[fact[at]] && shown[view[at]] && asked[template[at]]),
    );

  // As fathom.report.charts.counted does: of each combination of classes facts, means, and the share of its run.
  counted({ name, classes }, weights) {
    const [facts, hits, sure, scored] = Array.from({ length: 4 }, () => new Float64Array(classes.length));
    const { confidence, count, [`of ${name}`]: places } = this;
    const values = name === "calibration" ? this.right : this.values;
    for (let at = 0; at < count; at++) {
      const weight = weights[at];
      const place = weight ? places[at] : -1;
      if (place < 0) continue;
      facts[place] += weight;
      hits[place] += weight * values[at];
      if (confidence[at] === UNSURE) continue;
      sure[place] += (weight * confidence[at]) / (UNSURE - 1);
      scored[place] += weight;
    }
    const ofRun = Object.create(null); // a run may be called __proto__
    classes.forEach(({ run }, place) => (ofRun[run] = (ofRun[run] ?? 0) + facts[place]));
    const known = (value) => (Number.isNaN(value) ? null : value);
    const rows = classes.map((own, place) => {
      const hit = known(hits[place] / facts[place]);
      const means = { hit, sure: scored[place] ? sure[place] / scored[place] : null };
      return { ...own, facts: facts[place], share: facts[place] / ofRun[own.run], ...means };
    });
    return rows.filter((row) => row.facts);
  }

  // The prediction that is wrong with the highest probability; undefined without any.
  surestMistake(fact, shown) {
    const isWrong = (at) => shown[this.view[at]] && this.asked(at) && !(this.golden[at] & 1) && this.right[at] < 1;
    const known = this.ofFact[fact].filter((at) => this.confidence[at] !== UNSURE && isWrong(at));
    return known.reduce((best, at) => (this.confidence[at] > (this.confidence[best] ?? -1) ? at : best), undefined);
  }

  // How differently the shown runs answer: variance of what is right, then the spread of ranks.
  disagreement(fact, shown) {
    const views = this.views.map((_, view) => view).filter((view) => shown[view]);
    const hits = views.map((view) => this.hit(view, fact)).filter((hit) => !Number.isNaN(hit));
    const ranks = views.map((view) => Math.log(this.meanRank(view, fact))).filter(Number.isFinite);
    const [of, right] = [hits.length, hits.filter((hit) => hit === 1).length];
    const mean = hits.reduce((sum, hit) => sum + hit, 0) / of;
    const variance = hits.reduce((sum, hit) => sum + (hit - mean) ** 2, 0) / of;
    const spread = ranks.length ? Math.max(...ranks) - Math.min(...ranks) : 0;
    return { order: of ? variance + spread / 1000 : -1, right, of };
  }
}
