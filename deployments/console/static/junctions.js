/* The junctions as buttons: what the map shows, in words. */

import { element, percent, setText } from "./dom.js";
import { read } from "./signals.js";

export class JunctionButtons {
  constructor(container, network, choose) {
    this.parts = new Map(network.junctions.map((junction) => {
      const [confidence, phase, rest] = [element("span"), element("span"), element("span")];
      const name = element("strong", "", element("span", "name", junction.name), confidence);
      const button = element("button", "", name, phase, rest);
      button.type = "button";
      button.addEventListener("click", () => choose(junction.id));
      container.append(button);
      return [junction.id, { junction, button, confidence, phase, rest }];
    }));
    this.clear();
  }

  clear() {
    for (const id of this.parts.keys()) this.show(id, null);
  }

  mark(id) {
    for (const [other, { button }] of this.parts) button.setAttribute("aria-pressed", String(other === id));
  }

  show(id, decision) {
    const { junction, confidence, phase, rest } = this.parts.get(id);
    const fallback = Boolean(decision && decision.fallback);
    phase.className = fallback ? "fallback" : "";
    if (!decision) {
      setText(confidence, "");
      setText(phase, "no decision yet");
      setText(rest, "");
      return;
    }
    const { queues, faults } = read(decision, junction);
    const mean = percent(queues.reduce((sum, share) => sum + share, 0) / queues.length);
    const nEstimated = faults.filter(Boolean).length;
    setText(confidence, fallback ? "" : percent(decision.probabilities[decision.action]));
    setText(phase, fallback ? "RED, " + decision.fallback.replaceAll("_", " ") : "phase " + decision.action + " · step " + decision.step);
    setText(rest, "lanes " + mean + " full" + (nEstimated ? ", " + nEstimated + " estimated" : ""));
  }
}
