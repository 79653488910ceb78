import { byId, make, unpacked } from "./dom.js";
import { BRUSHED } from "./choice.js";

// Charts of the facts that are left, drawn when first shown.

export const charts = new Map();
// Titles in the charts' specifications, which are those of accuracy.
const TITLES = {
  "hits@10": ["share right within rank 10", "right within rank 10"],
  mrr: ["mean of 1 / rank", "mean of 1 / rank"],
};
const NARROW = 480; // pixels that two columns of a legend need
const LONG = 18; // characters of a run's name that need a column of its own
let metricDrawn;

function inMetric(spec, metric) {
  if (!(metric in TITLES)) return spec;
  const [axis, tooltip] = TITLES[metric];
  const text = JSON.stringify(spec).replaceAll('"share of facts right"', `"${axis}"`);
  const own = JSON.parse(text.replaceAll('"first answer right"', `"${tooltip}"`));
  // Intervals are those of accuracy.
  return own.layer ? { ...own, layer: own.layer.filter(({ mark }) => mark.type !== "rule") } : own;
}

async function drawChart({ name, brush, spec }, choice) {
  charts.get(name)?.finalize();
  const [box, actions] = [byId(`chart-${name}`), { source: false, compiled: false, editor: false }];
  box.hidden = false;
  const own = name === "calibration" ? spec : inMetric(spec, choice.evidence.metric);
  const { axis, legend } = own.config;
  const hasLongNames = choice.evidence.views.some(({ name: run }) => run.length > LONG);
  const isNarrow = box.clientWidth < NARROW;
  if (isNarrow || hasLongNames) legend.columns = 1;
  // Legends begin right of the axis, whose labels may be long.
  axis.labelLimit = Math.min(axis.labelLimit, (isNarrow ? 0.35 : 0.42) * box.clientWidth);
  legend.labelLimit = Math.min(legend.labelLimit, 0.45 * (box.clientWidth / legend.columns));
  const { view } = await window.vegaEmbed(box, own, { renderer: "svg", actions, config: { background: null } });
  // For screen readers a chart is one image: its values are in the tables.
  const drawn = Object.assign(box.querySelector("svg"), { role: "img", ariaLabel: `chart: ${name}` });
  drawn.firstElementChild.ariaHidden = "true";
  box.querySelector("summary").ariaLabel = `Save the chart ${name}`;
  const sets = (value) => Object.fromEntries(brush.map(([key, name]) => [name, (value[key] ?? []).map(String)]));
  // Not at once: a chart that runs cannot be filled.
  const brushed = (_, value) => requestAnimationFrame(() => choice.set(sets(value), `brush of ${name}`));
  if (brush.length) view.addSignalListener("brush", brushed);
  return [name, view];
}

async function draw(drawings, choice) {
  const drawn = await Promise.all(drawings.map((drawing) => drawChart(drawing, choice)));
  for (const [name, view] of drawn) charts.set(name, view);
}

// All charts, or those whose brush is no longer chosen: a chart forgets its brush only when it is drawn anew.
export async function drawCharts(evidence, choice) {
  if (!window.vegaEmbed)
    document.head.append(make("script", { textContent: await (await unpacked("charts-code")).text() }));
  const isStale = ({ name, of }) => {
    const brush = of && charts.get(name).signal("brush")[of];
    return brush?.some((value) => !choice.state[of].includes(String(value)));
  };
  const stale = metricDrawn === evidence.metric ? evidence.drawings.filter(isStale) : evidence.drawings;
  metricDrawn = evidence.metric;
  if (stale.length) await draw(stale, choice);
}

export function fillCharts(evidence, choice) {
  const [shown, asked, kept] = [choice.shown(), choice.asked(), choice.kept];
  const weights = evidence.weights(kept, shown, asked);
  for (const drawing of evidence.drawings) {
    const own = choice.state[drawing.of]?.length ? evidence.weights(choice.facts(drawing.of), shown, asked) : weights;
    const rows = evidence.counted(drawing, own);
    byId(`chart-${drawing.name}`).hidden = !rows.length;
    if (rows.length) charts.get(drawing.name).data("counted", rows).run();
  }
}

// A choice outside the charts is of all runs.
export const ofAllRuns = (changes) => {
  for (const name of BRUSHED) if (name in changes) changes[`${name}.run`] ??= [];
  return changes;
};
