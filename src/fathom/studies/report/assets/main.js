import { all, byId, make, unpacked } from "./dom.js";
import { readEvidence } from "./evidence.js";
import { Choice, FILTERS } from "./choice.js";
import { charts, ofAllRuns } from "./charts.js";
import { compareTab } from "./compare.js";
import { Facts } from "./facts.js";
import { tellFacts } from "./telling.js";
import { fillControls, moveTab, showTab, TABS } from "./controls.js";

// Glue: a choice fills the tab that is shown; the others are filled when they are shown.

async function loadTables() {
  const [style, tables] = ["table-style", "table-code"].map(unpacked);
  document.head.prepend(make("style", { textContent: await (await style).text() }));
  const code = new Blob([await (await tables).text()], { type: "text/javascript" });
  return (await import(URL.createObjectURL(code))).default;
}

function listen(choice, factsTab) {
  const choose = (changes, going) => choice.set(ofAllRuns(changes), going);
  document.addEventListener("input", ({ target: { dataset, value } }) => {
    const { choice: name, side, run } = dataset;
    if (name) choose({ [name]: value ? [value] : [] }, name === "q" ? "search" : "");
    if (side) choice.set({ pair: Object.assign(choice.pair(), { [side]: value }) });
    if (run !== undefined) choice.set({ hidden: all("[data-run]:not(:checked)").map((box) => box.value) });
  });
  document.addEventListener("click", ({ target }) => {
    const data = target.closest("button")?.dataset ?? {};
    const { tab, cell, back, fact, chooses, theme, sort, close, opens, by } = data;
    const toggle = (name, own) => choice.set({ [name]: choice.state[name][0] === own ? [] : [own] });
    if (theme) document.documentElement.dataset.theme = theme;
    if (tab) choice.set({ tab: tab === TABS[0] ? [] : [tab] });
    if (cell) toggle("cell", cell);
    if (sort) toggle("sort", sort);
    if (opens) {
      const none = Object.fromEntries(FILTERS.map((own) => [own, []]));
      choice.set({ ...none, tab: ["evidence"], open: [opens], sort: [by] });
      byId("fact")?.focus();
      byId("fact")?.scrollIntoView({ block: "nearest" });
    }
    if (fact) factsTab().toggle(fact);
    if (close) factsTab().toggle(choice.state.open[0]);
    if (chooses) choose({ [chooses]: [data.value] });
    if (back) choose(Object.fromEntries((back === "all" ? FILTERS : [back]).map((own) => [own, []])));
  });
  document.addEventListener("keydown", (event) => {
    moveTab(event, (name) => choice.set({ tab: name === TABS[0] ? [] : [name] }));
    if (event.key === "Escape" && event.target.closest("#fact")) factsTab().toggle(choice.state.open[0]);
  });
  addEventListener("hashchange", () => {
    choice.state = choice.read();
    choice.change();
  });
}

async function start() {
  const [evidence, DataTable] = await Promise.all([readEvidence(), loadTables()]);
  const metrics = all("[data-forest]").map((plot) => plot.dataset.forest);
  const stale = new Set();
  let last;

  // Only what changes is counted and drawn again.
  async function change() {
    const { tab: [tab], open: _open, template, metric, ...others } = choice.state;
    const shown = TABS.includes(tab) ? tab : TABS[0];
    showTab(shown);
    if (last !== (last = JSON.stringify([template, metric, others]))) {
      evidence.choose(template[0], metrics.includes(metric[0]) ? metric[0] : "accuracy");
      choice.kept = choice.facts();
      fillControls(evidence, choice);
      TABS.forEach((name) => stale.add(name));
    }
    if (stale.delete(shown)) await fill[shown]?.();
    else if (shown === "evidence") factsTab().open();
  }

  const choice = new Choice(evidence, () => (window.fathom.settled = change()));
  let facts; // its table takes as long to make as everything else
  const factsTab = () => (facts ??= new Facts(DataTable, evidence, choice));
  const fill = { compare: compareTab(DataTable, evidence, choice), evidence: () => factsTab().fill() };
  window.fathom = { evidence, choice, charts };
  tellFacts(evidence);
  listen(choice, factsTab);
  addEventListener("beforeprint", factsTab);
  choice.change();
  await window.fathom.settled;
  if (choice.state.open.length) byId("fact")?.scrollIntoView();
  document.body.dataset.ready = "yes";
}

start().catch((error) => {
  byId("failed").textContent = `The interactive part cannot be shown here: ${error.message}. The tables are complete.`;
  document.documentElement.removeAttribute("data-tab");
  throw error;
});
