// Elements of the page. Whatever comes from data or models is set as text, never as HTML.

export const byId = (id) => document.getElementById(id);
export const all = (selector) => [...document.querySelectorAll(selector)];
export const percent = (share) => (Number.isFinite(share) ? `${(100 * share).toFixed(1)} %` : "–");

export function make(tag, { data = {}, ...attributes } = {}, ...children) {
  const node = Object.assign(document.createElement(tag), attributes);
  Object.assign(node.dataset, data);
  node.append(...children);
  return node;
}

const shortened = (text, most) => (text.length > most ? `${text.slice(0, most)}…` : text);
// Names may run from right to left, or never end.
export const isolated = (text, most = Infinity) => make("bdi", {}, shortened(text, most));
export const opener = (text, data) =>
  make("button", { type: "button", className: "opener", data }, isolated(text, 120));

// --- compressed texts of the page
const packed = async (id) => (await fetch(`data:application/gzip;base64,${byId(id).textContent}`)).body;
export const unpacked = async (id) => new Response((await packed(id)).pipeThrough(new DecompressionStream("gzip")));
