import { isolated, make } from "./dom.js";

// Tokens of statements as boxes, those of two statements aligned.

const SURPRISE = 10; // nats below zero that have the full colour
const MINUS = "−";

// Where two statements differ, both get as many boxes; what they share is in the same columns.
function aligned(first, second) {
  const most = Math.min(first.length, second.length);
  const isShared = (at) => first.at(at).text === second.at(at).text;
  let [before, after] = [0, 0];
  while (before < most && isShared(before)) before++;
  while (after < most - before && isShared(-after - 1)) after++;
  const longest = Math.max(first.length, second.length);
  return [first, second].map((tokens) => {
    const end = tokens.length - after;
    return [...tokens.slice(0, end), ...Array(longest - tokens.length).fill(null), ...tokens.slice(end)];
  });
}

// White space is shown by signs; a token without a text is the rest of a character.
const signs = (text) => text.replace(/^\s(?=\S)/u, "").replace(/\n/gu, "↵").replace(/^\s+$/u, "␣");
const nats = (value) => (value === null ? "–" : value.toFixed(2).replace("-", MINUS));

function box(token) {
  if (!token) return make("li", { className: "gap", ariaHidden: "true" });
  const share = Math.min(1, -(token.value ?? 0) / SURPRISE);
  const style = `--surprise: ${Math.round(40 * share)}%`;
  return make("li", { style }, isolated(signs(token.text) || "…"), make("span", {}, nats(token.value)));
}

function statement(name, tokens) {
  const sum = tokens.reduce((total, token) => total + (token?.value ?? 0), 0);
  const label = `${name}: ${sum.toFixed(1).replace("-", MINUS)} nats`;
  const boxes = make("ol", { ariaLabel: `${label}, by token` }, ...tokens.map(box));
  return [make("p", { className: "score" }, label), boxes];
}

// The boxes of a prediction; nothing where its run kept no tokens.
export function tokenBoxes(evidence, at) {
  const [right, first] = evidence.tokens(at);
  if (!right.length) return [];
  const both = first.length ? aligned(right, first) : [right];
  const lists = both.flatMap((tokens, number) => statement(["Right answer", "First answer"][number], tokens));
  const ariaLabel = "Log-probability of each token in nats";
  return [make("div", { className: "tokens", tabIndex: 0, role: "group", ariaLabel }, ...lists)];
}
