/* The console: one stream of events, and what each part of the page makes of it. */

import { askJson, events, isLoggedIn, logIn, LoginNeeded, logOut, Refused } from "./connection.js";
import { byId, setText } from "./dom.js";
import { Figures } from "./figures.js";
import { ForecastPanel } from "./forecast.js";
import { JunctionPanel } from "./junction.js";
import { JunctionButtons } from "./junctions.js";
import { Replicas } from "./replicas.js";
import { RoadMap } from "./road-map.js";
import { WhatIf } from "./what-if.js";

const RETRY_MS = 1000;
const IDLE_S = 5;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

let parts;
let stream = new AbortController();
let shownRun = null;
let chosen = null;
let since = null; // when the connection was lost

function build(network) {
  network.junctions.sort((one, other) => one.place[0] - other.place[0]); // from west to east
  parts = {
    map: new RoadMap(byId("map"), network, choose),
    buttons: new JunctionButtons(byId("junctions"), network, choose),
    junction: new JunctionPanel(network),
    whatIf: new WhatIf(byId("what-if"), network),
    forecast: new ForecastPanel(byId("forecast")),
    figures: new Figures(),
    replicas: new Replicas(),
  };
  setText(byId("left-out"), network.left_out ? "and " + network.left_out.toLocaleString() + " more that are not shown" : "");
  parts.junctions = network.junctions;
  choose(network.junctions.find(({ name }) => name === "Center")?.id ?? network.junctions[0].id);
}

function choose(id) {
  chosen = id;
  parts.map.mark(id);
  parts.buttons.mark(id);
  parts.junction.choose(id);
  parts.whatIf.choose(id);
  parts.forecast.choose(parts.junctions.find((junction) => junction.id === id));
}

function show(view) {
  if (view.run !== shownRun) {
    shownRun = view.run;
    parts.map.clear();
    parts.buttons.clear();
    parts.junction.clear();
    parts.whatIf.forget();
  }
  for (const decision of view.decisions) {
    parts.junction.add(decision);
    parts.map.show(decision.junction, decision);
    parts.buttons.show(decision.junction, decision);
  }
  if (view.decisions.length) parts.junction.refresh();
  parts.whatIf.follow(view.run, parts.junction.recent.get(chosen)[0]);
  if (view.forecasts) parts.forecast.take(view.forecasts);
  parts.figures.add(view);
  parts.replicas.show(view.replicas);
  showRuns(view);
}

function showRuns(view) {
  const select = byId("run");
  const driving = view.runs.filter(({ idle_s }) => idle_s < IDLE_S);
  const current = view.runs.find(({ run }) => run === view.run);
  const heard = Object.keys(view.rates.requests_per_s).length > 0;
  byId("waiting").hidden = heard;
  byId("idle").hidden = !heard || driving.length > 0;
  byId("console").classList.toggle("past", driving.length === 0);
  setText(byId("run-facts"), current
    ? current.run + " · " + (current.idle_s < IDLE_S ? current.steps_per_s + " decisions per second" : lastSeen()) : "");
  const names = view.runs.map(({ run }) => run).sort();
  const known = [...select.options].slice(1).map(({ value }) => value);
  if (names.join() === known.join() || document.activeElement === select) return;
  const wanted = select.value;
  select.replaceChildren(select.options[0], ...names.map((name) => new Option(name, name)));
  if (wanted && !names.includes(wanted)) select.append(new Option(wanted, wanted));
  select.value = wanted;
}

function lastSeen() {
  const newest = Math.max(...[...parts.junction.recent.values()].flat().map(({ at_ms }) => at_ms));
  return Number.isFinite(newest) ? "last seen at " + time(newest) : "idle";
}

const time = (ms) => new Date(ms).toLocaleTimeString();

/* What is shown is of the past from now on. */
function lose(reason) {
  since ??= time(Date.now());
  byId("waiting").hidden = byId("idle").hidden = true;
  byId("console").classList.add("lost");
  tell("down", reason || "no connection since " + since + ", trying again");
}

function tell(kind, words) {
  byId("connection").className = "pill " + kind;
  setText(byId("connection").lastElementChild, words);
}

function showLogin(needed) {
  byId("login").hidden = !needed;
  byId("console").hidden = needed;
  byId("run-choice").hidden = needed;
  byId("logout").hidden = needed || !isLoggedIn();
  if (needed) {
    tell("", "not logged in");
    byId("password").focus();
  }
}

/* Follow one stream to its end; the next one follows without a gap. */
async function follow() {
  stream = new AbortController();
  const run = byId("run").value;
  for await (const view of events("stream?" + new URLSearchParams({ run }), stream.signal)) {
    since = null;
    byId("console").classList.remove("lost");
    tell("up", "live");
    show(view);
  }
}

async function keepFollowing() {
  for (;;) {
    if (document.hidden) {
      await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
      continue;
    }
    try {
      if (!parts) build(await askJson("map"));
      showLogin(false);
      await follow();
    } catch (error) {
      if (error instanceof LoginNeeded) {
        showLogin(true);
        await new Promise((resolve) => document.addEventListener("logged-in", resolve, { once: true }));
      } else if (!stream.signal.aborted) {
        lose(error instanceof Refused ? error.message : "");
        await pause(error.retryMs || RETRY_MS);
      }
    }
  }
}

byId("run").addEventListener("change", () => stream.abort());
document.addEventListener("visibilitychange", () => document.hidden && stream.abort());
byId("logout").addEventListener("click", () => {
  logOut();
  stream.abort();
});
byId("login-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const problem = byId("login-problem");
  problem.hidden = true;
  try {
    await logIn(byId("username").value, byId("password").value);
    byId("password").value = "";
    document.dispatchEvent(new Event("logged-in"));
  } catch (error) {
    problem.textContent = error instanceof TypeError ? "The gateway cannot be reached" : error.message;
    problem.hidden = false;
  }
});
keepFollowing();
