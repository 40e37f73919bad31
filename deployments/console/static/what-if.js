/* What the policy would do at the latest decision if one queue were longer or shorter. */

import uPlot from "./vendor/uplot/uPlot.esm.js";
import { askJson } from "./connection.js";
import { colour, element, onThemeChange, percent, setText } from "./dom.js";
import { hue, laneNames, phaseName } from "./signals.js";

const HEIGHT = 150;

export class WhatIf {
  constructor(container, network) {
    this.container = container;
    this.network = network;
    this.lane = element("select");
    this.slider = element("input");
    Object.assign(this.slider, { type: "range", min: 0, max: 40, value: 0 });
    this.said = element("p", "said");
    this.said.setAttribute("role", "status");
    this.plot = element("div");
    this.keys = element("p", "keys");
    container.append(labelled("Lane", this.lane), this.plot, this.keys, labelled("Vehicles on this lane", this.slider), this.said);
    this.lane.addEventListener("change", () => this.ask());
    this.slider.addEventListener("input", () => this.say());
    new ResizeObserver(() => this.chart && this.chart.setSize(this.size())).observe(container);
    onThemeChange(() => this.draw());
  }

  choose(junctionId) {
    const junction = this.network.junctions.find(({ id }) => id === junctionId);
    this.junction = junction;
    this.lane.replaceChildren(...laneNames(junction, this.network.roads).map((name, lane) => new Option(name, lane)));
    this.keys.replaceChildren(...junction.phases.map((_, phase) =>
      element("span", "", element("i", "key action-" + hue(phase)), phaseName(junction, phase))));
    this.forget();
  }

  forget() {
    this.curve = null;
    if (this.chart) this.chart.destroy();
    this.chart = null;
    this.slider.disabled = true;
    setText(this.said, "Waits for a decision of this junction.");
  }

  /* Ask anew for the latest decision, but not while the user moves the slider. */
  async follow(run, decision) {
    this.run = run;
    this.step = decision?.step; // 0 for a fallback
    if (decision?.fallback) this.forget();
    if (!decision || decision.fallback || this.asking || document.activeElement === this.slider) return;
    if (this.curve && this.curve.step === decision.step) return;
    await this.ask();
  }

  async ask() {
    if (!this.run || !this.step) return;
    const wanted = new URLSearchParams({ run: this.run, junction: this.junction.id, lane: this.lane.value, step: this.step });
    this.asking = true;
    try {
      const curve = await askJson("what_if?" + wanted);
      if (wanted.get("run") !== this.run || wanted.get("junction") !== this.junction.id || wanted.get("lane") !== this.lane.value) return;
      this.curve = curve;
      this.slider.disabled = false;
      this.slider.value = curve.values.indexOf(curve.value);
      this.draw();
      this.say();
    } catch (error) {
      setText(this.said, error.message || "Unavailable: log in again.");
    } finally {
      this.asking = false;
    }
  }

  say() {
    if (!this.curve) return;
    const { value, values, probabilities } = this.curve;
    const at = Number(this.slider.value);
    const now = values.indexOf(value);
    const [then, before] = [best(probabilities, at), best(probabilities, now)];
    const is = "At step " + this.curve.step + ", with " + percent(values[at]) + " of this lane filled: phase " + then + " (" + percent(probabilities[then][at]) + ")";
    setText(this.said, at === now ? is + ", as it was."
      : is + (then === before ? ", too." : " instead of phase " + before + "."));
    if (this.chart) this.chart.setCursor({ left: this.chart.valToPos(values[at], "x"), top: 0 });
  }

  size() {
    return { width: Math.max(120, this.container.clientWidth), height: HEIGHT };
  }

  draw() {
    if (!this.curve) return;
    const { values, probabilities } = this.curve;
    const shown = probabilities.slice(0, this.junction.phases.length);
    if (this.chart) this.chart.destroy();
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    this.chart = new uPlot({
      ...this.size(),
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
      scales: { x: { time: false, range: [0, 1] }, y: { range: [0, 1] } },
      axes: [{ ...axis, size: 24, values: (_, ticks) => ticks.map(percent), space: 60 },
        { ...axis, size: 44, values: (_, ticks) => ticks.map(percent), space: 30 }],
      series: [{}, ...shown.map((_, action) => ({ stroke: colour("--p" + hue(action)), width: 2, points: { show: false } }))],
    }, [values, ...shown], this.plot);
  }
}

const best = (probabilities, at) => probabilities.reduce((most, each, action) => (each[at] > probabilities[most][at] ? action : most), 0);

const labelled = (text, control) => element("label", "", text, control);
