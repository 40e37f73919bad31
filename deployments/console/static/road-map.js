/* The map: lanes as they lie, the signal at each stop line, the queue behind it, and the junctions. */

import { svg } from "./dom.js";
import { drawnLanes, LANE_M, length, path, tail } from "./geometry.js";
import { read, signals } from "./signals.js";

const RING = 2 * Math.PI;
const STOP_M = 14;
const RADIUS_M = 4.4;

/* How much wider lanes are drawn, and the size of names in metres: both must be seen on a small screen, too. */
const LARGE = { wider: 4.6, name: 24 };
const SMALL = { wider: 7, name: 52 };
const EXTENT_M = 1600; // for which these are meant; in a larger network all is drawn larger

function styleOn(width, { roads }) {
  const { wider, name } = width < 560 ? SMALL : LARGE;
  const points = roads.flatMap(({ lanes }) => lanes.flatMap(({ shape }) => shape));
  const larger = Math.max(1, extent(points.map(([x]) => x)) / EXTENT_M, extent(points.map(([, y]) => y)) / EXTENT_M);
  return { wider: wider * larger, name: name * larger };
}

const extent = (values) => values.reduce((most, value) => Math.max(most, value), -Infinity) - values.reduce((least, value) => Math.min(least, value), Infinity);

export class RoadMap {
  constructor(container, network, choose) {
    this.container = container;
    this.network = network;
    this.choose = choose;
    this.decisions = new Map();
    this.chosen = null;
    this.draw();
    addEventListener("resize", () => {
      if (styleOn(container.clientWidth, network).wider !== this.style.wider) this.draw();
    });
  }

  draw() {
    this.style = styleOn(this.container.clientWidth, this.network);
    const { wider } = this.style;
    const lanes = drawnLanes(this.network.roads, wider);
    const width = LANE_M * wider;
    this.approaches = new Map();
    this.places = new Map();
    const root = svg("svg", { viewBox: box([...lanes.values()].flat(), 3 * this.style.name), role: "img",
      "aria-label": "Map of the junctions; the buttons below tell the same in words" });
    for (const points of lanes.values()) root.append(road(points, width));
    for (const junction of this.network.junctions) this.drawApproaches(root, junction, lanes, width);
    for (const junction of this.network.junctions) this.drawPlace(root, junction, lanes);
    this.container.replaceChildren(root);
    for (const junction of this.network.junctions) this.refresh(junction);
  }

  drawApproaches(root, junction, lanes, width) {
    const drawn = junction.approaches.map(({ lane }) => {
      const points = lanes.get(lane);
      const queue = svg("path", { class: "queue", "stroke-width": width * 0.62 });
      const stop = svg("path", { class: "stop", "stroke-width": width * 0.86, d: path(tail(points, shareOf(points, STOP_M))) });
      root.append(queue, stop);
      return { points, queue, stop };
    });
    this.approaches.set(junction.id, drawn);
  }

  drawPlace(root, junction, lanes) {
    const area = this.areaOf(junction, lanes, LANE_M * this.style.wider);
    const [x, y] = [(area.left + area.right) / 2, (area.top + area.bottom) / 2];
    const radius = RADIUS_M * this.style.wider;
    const ring = svg("circle", { class: "ring", cx: x, cy: y, r: radius, "stroke-width": radius * 0.17,
      transform: "rotate(-90 " + x + " " + y + ")", "stroke-dasharray": "0 1000" });
    const text = svg("text", { x, y: y + radius * 0.28, "font-size": radius * 0.82 });
    const name = svg("text", { class: "name", x: area.right + 8, y: area.top - this.style.name / 2, "font-size": this.style.name }, junction.name);
    const place = svg("g", { class: "place" },
      svg("rect", { class: "field", x: area.left, y: area.top, width: area.right - area.left, height: area.bottom - area.top, rx: 8 }),
      svg("circle", { class: "face", cx: x, cy: y, r: radius * 1.22 }), ring, text, name);
    place.addEventListener("click", () => this.choose(junction.id));
    root.append(place);
    this.places.set(junction.id, { place, ring, text, radius });
  }

  /* The area of a junction: between where its lanes end and begin. */
  areaOf({ place }, lanes, width) {
    const isHere = ([x, y]) => x === place[0] && y === place[1];
    const points = this.network.roads.flatMap(({ start, end, lanes: each }) => [
      ...(isHere(end) ? each.map(({ id }) => lanes.get(id).at(-1)) : []),
      ...(isHere(start) ? each.map(({ id }) => lanes.get(id)[0]) : []),
    ]);
    const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
    const inward = width / 2;
    return {
      left: Math.min(place[0] - inward, ...xs), right: Math.max(place[0] + inward, ...xs),
      top: Math.min(-place[1] - inward, ...ys), bottom: Math.max(-place[1] + inward, ...ys),
    };
  }

  /* Show the latest decision of a junction; null while none is known. */
  show(id, decision) {
    this.decisions.set(id, decision);
    this.refresh(this.network.junctions.find((junction) => junction.id === id));
  }

  clear() {
    for (const junction of this.network.junctions) this.show(junction.id, null);
  }

  mark(id) {
    this.chosen = id;
    for (const [other, { place }] of this.places) place.classList.toggle("chosen", other === id);
  }

  refresh(junction) {
    const decision = this.decisions.get(junction.id);
    const { place, ring, text, radius } = this.places.get(junction.id);
    place.classList.toggle("decided", Boolean(decision && !decision.fallback));
    place.classList.toggle("fallback", Boolean(decision && decision.fallback));
    place.classList.toggle("chosen", junction.id === this.chosen);
    const confidence = decision && !decision.fallback ? decision.probabilities[decision.action] : decision ? 1 : 0;
    ring.setAttribute("stroke-dasharray", confidence * RING * radius + " 1000");
    text.textContent = decision ? (decision.fallback ? "!" : String(Math.round(100 * confidence))) : "–";
    const shown = decision ? signals(decision, junction) : [];
    const { queues, faults } = decision ? read(decision, junction) : { queues: [], faults: [] };
    this.approaches.get(junction.id).forEach(({ points, queue, stop }, lane) => {
      stop.setAttribute("class", "stop " + (shown[lane] || ""));
      const share = Math.min(1, queues[lane] || 0);
      queue.setAttribute("class", faults[lane] ? "queue estimated" : "queue");
      queue.setAttribute("d", share > 0 ? path(tail(points, share)) : "");
    });
  }
}

function road(points, width) {
  return svg("path", { class: "road", d: path(points), "stroke-width": width * 0.94 });
}

const shareOf = (points, metres) => Math.min(1, metres / length(points));

function box(points, margin) {
  const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
  const [left, top] = [Math.min(...xs) - margin, Math.min(...ys) - margin];
  return [left, top, Math.max(...xs) + margin - left, Math.max(...ys) + margin - top].join(" ");
}
