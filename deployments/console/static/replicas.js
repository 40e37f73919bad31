/* The replicas of each application, as Serve sees them. */

import { byId, element } from "./dom.js";

const WORDS = {
  RUNNING: ["", "runs"], SILENT: ["down", "silent"], GONE: ["down", "gone"], STOPPING: ["waiting", "stops"],
  STARTING: ["waiting", "starts"], UPDATING: ["waiting", "updates"], RECOVERING: ["waiting", "recovers"],
  PENDING_MIGRATION: ["waiting", "moves"],
};

export class Replicas {
  constructor() {
    this.list = byId("replicas").querySelector("ul");
    this.shown = "";
  }

  show(replicas) {
    const now = JSON.stringify(replicas);
    if (now === this.shown) return;
    this.shown = now;
    if (!replicas) {
      this.list.replaceChildren(element("li", "", "asking Serve …"));
      return;
    }
    const apps = grouped(replicas);
    this.list.replaceChildren(...[...apps].map(([app, each]) => item(app, each)));
  }
}

function item(app, replicas) {
  const bad = replicas.filter(({ state }) => state !== "RUNNING");
  const kind = bad.some(({ state }) => (WORDS[state] || ["down"])[0] === "down") ? "down" : bad.length ? "waiting" : "up";
  const states = replicas.map(({ id, state }) => {
    const [className, words] = WORDS[state] || ["down", state.toLowerCase()];
    const made = element("span", "replica " + className, words);
    made.title = id;
    return made;
  });
  const made = element("li", kind, element("span", "dot"), element("span", "", app), element("span", "states", ...states));
  made.dataset.app = app;
  return made;
}

function grouped(replicas) {
  const apps = new Map();
  for (const replica of replicas) apps.set(replica.app, [...(apps.get(replica.app) || []), replica]);
  return apps;
}
