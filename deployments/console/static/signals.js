/* What a decision means for the lanes of its junction. */

/* The index of the largest value of an observation's one-hot part; -1 when there is none. */
function phaseOf(observation, nPhases) {
  const oneHot = observation.slice(0, nPhases);
  const largest = Math.max(...oneHot);
  return largest > 0 ? oneHot.indexOf(largest) : -1;
}

/* Split an observation as models/policy/inputs.py lays it out. The queue of a lane with a fault is an estimate. */
export function read(decision, junction) {
  const nPhases = junction.phases.length;
  const { observation } = decision;
  return {
    phase: phaseOf(observation, nPhases),
    mayChange: (observation[nPhases] || 0) > 0,
    queues: junction.approaches.map((_, lane) => observation[nPhases + 1 + lane] || 0),
    faults: junction.approaches.map((_, lane) => (decision.faults[lane] || "").replaceAll("_", " ")),
  };
}

/* The signal of each lane: a phase that is asked for comes when the one before may end. */
export function signals(decision, junction) {
  if (decision.fallback) return junction.approaches.map(() => "red");
  const { phase, mayChange } = read(decision, junction);
  const now = phase < 0 ? decision.action : phase;
  const next = mayChange ? decision.action : now;
  return junction.approaches.map(({ greens }) => {
    if (greens.includes("?")) return ""; // unknown
    const [isGreen, willBe] = [greens[now] === "G", greens[next] === "G"];
    if (isGreen !== willBe) return "amber";
    return isGreen ? "green" : "red";
  });
}

/* The number of a phase's colour: there are six. */
export const hue = (phase) => phase % 6;

/* A phase by its number, and from where it lets vehicles go. */
export const phaseName = (junction, phase) => "phase " + phase + ", from " + junction.phases[phase];

/* What the lanes of a junction are called. */
export function laneNames(junction, roads) {
  return junction.approaches.map(({ lane }) => {
    const road = roads.find((each) => each.lanes.some((other) => other.id === lane));
    const number = road.lanes.findIndex((other) => other.id === lane) + 1;
    return "from " + road.start_name.toLowerCase() + (road.lanes.length > 1 ? ", lane " + number : "");
  });
}
