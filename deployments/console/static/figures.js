/* The services in figures: the value of now, and the last two minutes. */

import uPlot from "./vendor/uplot/uPlot.esm.js";
import { byId, colour, element, onThemeChange, setText } from "./dom.js";

const SECONDS = 120;
const HEIGHT = 34;

const sum = (values) => Object.values(values).reduce((total, value) => total + value, 0);
const ms = (value) => (value === null ? "–" : value < 10 ? value.toFixed(1) + " ms" : Math.round(value) + " ms");
/* As clients see it: at the gateway, or without requests there, at the inference service. */
const latency = ({ rates }) => rates.latency_ms.Gateway ?? rates.latency_ms.Inference;
const BREAKER = ["closed", "half open", "open"];

/* Name, value of a view (null: not known), words for it, and whether it is bad. */
const FIGURES = [
  ["Decisions per second", ({ rates }) => rates.requests_per_s.Inference ?? null, (value) => (value === null ? "–" : value.toFixed(value < 10 ? 1 : 0))],
  ["Through the gateway per second", ({ rates }) => rates.requests_per_s.Gateway ?? null, (value) => (value === null ? "–" : value.toFixed(value < 10 ? 1 : 0))],
  ["Latency, median", (view) => latency(view)?.p50 ?? null, ms],
  ["Latency, 99th percentile", (view) => latency(view)?.p99 ?? null, ms],
  ["Answers without the policy, in 3 s", ({ rates }) => sum(rates.fallbacks), (value, { rates }) => {
    const causes = Object.keys(rates.fallbacks).map((cause) => cause.replaceAll("_", " "));
    return value + (causes.length ? " · " + causes.join(", ") : "");
  }, (value) => value > 0],
  ["Circuit breaker", ({ rates }) => rates.breaker, (value) => (value === null ? "–" : BREAKER[value]), (value) => value > 0],
  ["Replicas that run", ({ replicas }) => (replicas ? replicas.filter(({ state }) => state === "RUNNING").length : null), (value, { replicas }) => (value === null ? "–" : value + " of " + replicas.filter(({ state }) => state !== "GONE").length)],
];

export class Figures {
  constructor() {
    this.seconds = [];
    this.figures = FIGURES.map(([name, value, words, isBad]) => {
      const [output, line] = [element("output"), element("div", "line")];
      const item = element("div", "figure", element("span", "", name), output, line);
      byId("figures").append(item);
      return { value, words, isBad, output, line, item, values: [] };
    });
    onThemeChange(() => this.rebuild());
    new ResizeObserver(() => this.rebuild()).observe(byId("figures"));
  }

  add(view) {
    const second = Math.floor(view.at_ms / 1000);
    const isNew = second !== this.seconds.at(-1);
    if (isNew) this.seconds.push(second);
    if (this.seconds.length > SECONDS) this.seconds.shift();
    for (const figure of this.figures) {
      const value = figure.value(view);
      if (isNew) figure.values.push(value);
      else figure.values[figure.values.length - 1] = value;
      if (figure.values.length > SECONDS) figure.values.shift();
      setText(figure.output, figure.words(value, view));
      figure.item.classList.toggle("bad", Boolean(figure.isBad && figure.isBad(value)));
      if (isNew && figure.chart) figure.chart.setData(this.dataOf(figure));
    }
  }

  dataOf(figure) {
    return [this.seconds, figure.values];
  }

  rebuild() {
    for (const figure of this.figures) {
      if (figure.chart) figure.chart.destroy();
      const width = Math.max(60, figure.line.clientWidth);
      figure.chart = new uPlot({
        width, height: HEIGHT, padding: [3, 0, 2, 0],
        legend: { show: false }, cursor: { show: false }, axes: [{ show: false }, { show: false }],
        scales: { x: { range: (_, __, last) => [last - SECONDS, last] }, y: { range: (_, __, most) => [0, Math.max(1, most)] } },
        series: [{}, { stroke: colour("--wave"), fill: colour("--wave") + "22", width: 1.5, points: { show: false } }],
      }, this.dataOf(figure), figure.line);
    }
  }
}
