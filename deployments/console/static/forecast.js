/* The forecast of a junction's flow beside what came. */

import uPlot from "./vendor/uplot/uPlot.esm.js";
import { byId, colour, element, onThemeChange, setText } from "./dom.js";

const HEIGHT = 220;
const REACH_S = 900;

export class ForecastPanel {
  constructor(container) {
    this.container = container;
    this.known = {};
    onThemeChange(() => this.draw());
    new ResizeObserver(() => this.chart && this.chart.setSize(this.size())).observe(container);
  }

  take(forecasts) {
    this.known = forecasts;
    this.draw();
  }

  choose({ id, name }) {
    this.junction = id;
    this.name = name;
    this.draw();
  }

  size() {
    return { width: Math.max(200, this.container.clientWidth - 32), height: HEIGHT };
  }

  draw() {
    if (this.chart) this.chart.destroy();
    this.chart = null;
    const known = this.known[this.junction];
    setText(byId("forecast-facts"), known ? facts(known) : "");
    if (!known) {
      this.container.replaceChildren(element("p", "", "No forecast of " + this.name + " was requested recently."));
      return;
    }
    const soft = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const line = (label, name, width, dash) => ({ label, stroke: colour(name), width, dash, points: { show: false } });
    this.container.replaceChildren();
    this.chart = new uPlot({
      ...this.size(),
      cursor: { drag: { x: false, y: false } },
      scales: { y: { range: (_, __, most) => [0, 1.1 * Math.max(1, most)] } },
      axes: [
        { ...soft, ...named("time, UTC"), size: 28, values: (_, ticks) => ticks.map(clock) },
        { ...soft, ...named("vehicles per minute"), size: 40 },
      ],
      series: [{ label: "time", value: (_, seconds) => (seconds === null ? "–" : clock(seconds)) }, line("counted in the minute", "--idle", 1), line("came, mean of 15 min", "--p0", 2),
        line("forecast of that mean", "--p1", 2, [6, 4])],
    }, table(known), this.container);
  }
}

const named = (label) => ({ label, labelSize: 18, labelFont: "11px system-ui" });
const clock = (seconds) => new Date(seconds * 1000).toISOString().slice(11, 16);

/* One row for each time: the count, the mean that came until then, and its forecast. */
function table({ counts, forecasts }) {
  const rows = new Map();
  const at = (time) => rows.get(time) || rows.set(time, [null, null, null]).get(time);
  for (const [time, count] of counts) at(time)[0] = count;
  for (const forecast of forecasts) {
    at(forecast.to)[1] = forecast.came;
    at(forecast.to)[2] = forecast.flow;
  }
  const times = [...rows.keys()].sort((one, other) => one - other);
  return [times, ...[0, 1, 2].map((column) => joined(times, times.map((time) => rows.get(time)[column])))];
}

/* Draw a line between values that are no farther apart than a forecast reaches, and none between others. */
function joined(times, values) {
  let before = -1;
  values.forEach((value, at) => {
    if (value === null) return;
    if (before >= 0 && times[at] - times[before] <= REACH_S) {
      const slope = (value - values[before]) / (times[at] - times[before]);
      for (let between = before + 1; between < at; between++) {
        values[between] = values[before] + slope * (times[between] - times[before]);
      }
    }
    before = at;
  });
  return values;
}

function facts({ forecasts }) {
  const latest = forecasts.at(-1);
  const ended = forecasts.filter(({ came }) => came !== null);
  const error = ended.reduce((total, { flow, came }) => total + Math.abs(flow - came), 0) / ended.length;
  const next = Math.round(latest.flow) + " vehicles per minute in the next quarter of an hour, confidence "
    + Math.round(100 * latest.confidence) + " %";
  return next + (ended.length ? "; mean error so far " + error.toFixed(1) : "");
}
