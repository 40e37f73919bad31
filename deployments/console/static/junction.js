/* One junction: what it observed, and its last decisions. */

import { byId, element, percent, setText } from "./dom.js";
import { hue, laneNames, phaseName, read } from "./signals.js";

const MAX_ROWS = 12;

export class JunctionPanel {
  constructor(network) {
    this.network = network;
    this.recent = new Map(network.junctions.map(({ id }) => [id, []]));
    this.junction = network.junctions[0];
  }

  clear() {
    for (const decisions of this.recent.values()) decisions.length = 0;
    this.refresh();
  }

  /* Add a decision, unless it is known: each stream begins with all recent decisions. */
  add(decision) {
    const decisions = this.recent.get(decision.junction);
    if (decisions.some((each) => each.at_ms === decision.at_ms && each.step === decision.step)) return;
    decisions.unshift(decision);
    decisions.length = Math.min(decisions.length, MAX_ROWS);
  }

  choose(id) {
    this.junction = this.network.junctions.find((junction) => junction.id === id);
    this.lanes = laneNames(this.junction, this.network.roads);
    setText(byId("junction-title"), this.junction.name);
    this.bars = this.lanes.map((name) => bar(name));
    this.fact = element("li", "fact");
    byId("observation").replaceChildren(this.fact, ...this.bars.map(({ item }) => item));
    this.refresh();
  }

  refresh() {
    const { id } = this.junction;
    const decisions = this.recent.get(id);
    const latest = decisions[0];
    setText(byId("junction-facts"), id);
    const seen = latest && read(latest, this.junction);
    setText(this.fact, seen ? (seen.phase < 0 ? "no phase is green" : phaseName(this.junction, seen.phase) + ": green")
      + (seen.mayChange ? ", may change" : ", may not change yet") : "nothing yet");
    this.bars.forEach(({ label, fill, output }, lane) => {
      const share = seen ? seen.queues[lane] : 0;
      const fault = seen ? seen.faults[lane] : "";
      setText(label, this.lanes[lane] + (fault && " (detector: " + fault + ", estimated)"));
      fill.className = fault && "estimated";
      fill.style.width = 100 * Math.min(1, share) + "%";
      setText(output, seen ? percent(share) : "–");
    });
    const longest = Math.max(0.2, ...decisions.flatMap((each) => read(each, this.junction).queues));
    const rows = decisions.map((each) => row(each, this.junction, longest));
    byId("decisions").replaceChildren(...(latest ? rows : [nothing()]));
  }
}

function bar(name) {
  const [label, fill, output] = [element("span", "", name), element("i"), element("output")];
  return { label, fill, output, item: element("li", "", label, element("span", "bar", fill), output) };
}

function nothing() {
  const cell = element("td", "empty", "No decision of this junction is known.");
  cell.colSpan = 5;
  return element("tr", "", cell);
}

function row(decision, junction, longest) {
  const seen = read(decision, junction);
  const queues = element("span", "queues", ...seen.queues.map((share, lane) => {
    const made = element("i", seen.faults[lane] && "estimated");
    made.style.height = Math.max(1, Math.round((18 * share) / longest)) + "px";
    return made;
  }));
  const time = new Date(decision.at_ms).toLocaleTimeString([], { hour12: false });
  if (decision.fallback) {
    return element("tr", "fallback", element("td", "number", "–"), element("td", "", "RED"),
      element("td", "", decision.fallback.replaceAll("_", " ")), element("td", "", queues), element("td", "", time));
  }
  return element("tr", "",
    element("td", "number", String(decision.step)),
    element("td", "", element("i", "key action-" + hue(decision.action)), junction.phases[decision.action]),
    element("td", "", stack(decision.probabilities, junction), percent(decision.probabilities[decision.action])),
    element("td", "", queues),
    element("td", "", time));
}

function stack(probabilities, junction) {
  const made = element("span", "stack", ...probabilities.map((probability, action) => {
    const part = element("i", "action-" + hue(action));
    part.style.width = 100 * probability + "%";
    return part;
  }));
  made.setAttribute("role", "img");
  made.setAttribute("aria-label", junction.phases.map((_, phase) => phaseName(junction, phase) + ": " + percent(probabilities[phase])).join(", "));
  return made;
}
