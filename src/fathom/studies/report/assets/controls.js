import { all, byId, isolated, make } from "./dom.js";
import { CHIPS } from "./choice.js";

// Tabs, fields, and the chips that name what is chosen.

export const TABS = ["overview", "compare", "evidence", "methods"];
const NAMES = { q: "Search", slice: "", template: "Template", cell: "Two runs", hidden: "Hidden" };

export function showTab(name) {
  document.documentElement.dataset.tab = name;
  for (const tab of all("[role=tab]")) {
    const isShown = tab.dataset.tab === name;
    tab.setAttribute("aria-selected", String(isShown));
    tab.tabIndex = isShown ? 0 : -1;
  }
}

// Arrow keys move between tabs.
export function moveTab(event, select) {
  const at = TABS.indexOf(event.target.closest?.("[role=tab]")?.dataset.tab);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: TABS.length - 1 }[event.key];
  if (at < 0 || to === undefined) return;
  event.preventDefault();
  const name = TABS.at(to % TABS.length);
  select(name);
  byId(`tab-${name}`).focus();
}

function chipText(name, { state }) {
  const field = document.querySelector(`select[data-choice='${name}']`);
  const label = NAMES[name] ?? field?.labels[0].firstChild.textContent.trim() ?? name;
  const cellText = () => document.querySelector(`[data-cell='${CSS.escape(state.cell[0])}'] span`)?.textContent;
  const value = name === "cell" ? (cellText() ?? state.cell[0]) : state[name].join(", ");
  const runs = state[`${name}.run`]?.length ? ` of ${state[`${name}.run`].join(", ")}` : "";
  return `${label ? `${label}: ` : ""}${value}${runs}`;
}

// Two states of one training are before and after; of other runs nothing is learnt or forgotten.
function nameCells(evidence, choice) {
  const views = choice.pair().map((at) => evidence.views[at]);
  const [[training, step], [other, otherStep]] = views.map(({ checkpoint }) => checkpoint ?? ["", 0]);
  const isCourse = training && training === other && step !== otherStep;
  const first = step < otherStep ? "forgotten" : "learnt";
  const second = step < otherStep ? "learnt" : "forgotten";
  for (const [cell, { name }, kind] of [["first", views[0], first], ["second", views[1], second]]) {
    const text = document.querySelector(`[data-cell=${cell}] span`);
    text?.replaceChildren(isolated(`only ${name} is right${isCourse ? ` (${kind})` : ""}`, 120));
  }
}

export function fillControls(evidence, choice) {
  nameCells(evidence, choice);
  const [{ state }, only] = [choice, (value = "", ...others) => (others.length ? "" : value)];
  for (const field of all("[data-choice]")) field.value = only(...state[field.dataset.choice]);
  for (const field of all("[data-side]")) field.value = choice.pair()[field.dataset.side];
  for (const box of all("[data-run]")) box.checked = !state.hidden.includes(box.value);
  const isHidden = ({ dataset: { forest, heat } }) => (forest ?? heat) !== evidence.metric;
  for (const plot of all("[data-forest], [data-heat]")) plot.hidden = isHidden(plot);
  const chosen = CHIPS.filter((name) => state[name].length);
  const chip = (name) =>
    make("button", { type: "button", data: { back: name } }, isolated(chipText(name, choice), 120), " ×");
  byId("chips").replaceChildren(...chosen.map(chip));
  byId("clear").disabled = !chosen.length;
  byId("number").textContent = chosen.length ? ` (${chosen.length})` : "";
  byId("count").textContent = `${choice.kept.filter(Boolean).length} of ${evidence.facts.length} facts`;
}
