import { byId, isolated, make, opener, percent } from "./dom.js";
import { UNSURE } from "./evidence.js";

// The most telling facts, a few lines each, over all facts and runs.

const LINES = 4;
const NAMED = 2; // runs that a line names

const chance = (share) => (share < 0.001 ? "< 0.1 %" : percent(share));

function greatest(evidence, order) {
  const facts = evidence.facts.map((_, fact) => ({ fact, order: order(fact) })).filter((own) => own.order > 0);
  return facts.sort((one, other) => other.order - one.order).slice(0, LINES).map(({ fact }) => fact);
}

// "Lyon 98.3 %; right: Paris, rank 7, 0.4 %"
function mistake(evidence, at) {
  const gold = evidence.answers(at).find(({ right }) => right) ?? evidence.unlisted(at);
  const rank = evidence.rank[at];
  const ranked = rank < 0 ? `beyond rank ${-rank}` : `rank ${Number(rank.toFixed(1))}`;
  const text = gold?.text ?? evidence.golds(evidence.fact[at]).join("; ");
  const about = [ranked, ...(gold?.value == null ? [] : [chance(gold.value)])];
  const first = isolated(evidence.texts[evidence.answer[at]], 60);
  const sure = percent(evidence.confidence[at] / (UNSURE - 1));
  return [first, ` ${sure}; right: `, isolated(text, 60), `, ${about.join(", ")}`];
}

// "1 of 2 right; wrong: Lyon (gpt2)"
function disagreement(evidence, fact, shown) {
  const { right, of } = evidence.disagreement(fact, shown);
  const wrong = evidence.views.map((_, view) => view).filter((view) => evidence.hit(view, fact) === 0);
  const named = wrong.slice(0, NAMED).map((view) => `${evidence.firstOf(view, fact)} (${evidence.views[view].name})`);
  const more = wrong.length > NAMED ? ` and ${wrong.length - NAMED} more` : "";
  return [`${right} of ${of} right; wrong: `, isolated(named.join(", "), 160), more];
}

function list(title, evidence, sort, facts, about) {
  const name = (fact) => `${evidence.subjectOf(fact)}, ${evidence.relationOf(fact)}`;
  const link = (fact) => opener(name(fact), { opens: evidence.facts[fact], by: sort });
  const items = facts.map((fact) => make("li", {}, link(fact), ": ", ...about(fact)));
  return facts.length ? [make("h2", {}, title), make("ul", {}, ...items)] : [];
}

export function tellFacts(evidence) {
  const shown = evidence.views.map(() => true);
  const surest = evidence.facts.map((_, fact) => evidence.surestMistake(fact, shown));
  const mistakes = greatest(evidence, (fact) => evidence.confidence[surest[fact]] ?? 0);
  const disputed = greatest(evidence, (fact) => {
    const hits = shown.map((_, view) => evidence.hit(view, fact));
    return hits.includes(1) && hits.includes(0) ? evidence.disagreement(fact, shown).order : 0;
  });
  const runOf = (at) => make("small", {}, isolated(evidence.views[evidence.view[at]].name));
  const ofRun = (at) => (shown.length > 1 ? [" ", runOf(at)] : []);
  const of = (fact) => [...mistake(evidence, surest[fact]), ...ofRun(surest[fact])];
  byId("telling").replaceChildren(
    ...list("Most confident mistakes", evidence, "wrong", mistakes, of),
    ...list("Most disagreement between runs", evidence, "disagreement", disputed, (fact) =>
      disagreement(evidence, fact, shown),
    ),
  );
}
