// The page: one state, three views, one keyboard.

import * as api from "./api.js";
import * as changes from "./changes.js";
import * as decisions from "./decide.js";
import { byId } from "./dom.js";
import * as errors from "./errors.js";
import * as exporting from "./exporting.js";
import * as findings from "./findings.js";
import * as history from "./history.js";
import * as keys from "./keys.js";
import { say, serverIsThere, setProblem } from "./messages.js";
import * as outbox from "./outbox.js";
import * as patterns from "./patterns.js";
import * as project from "./project.js";
import * as reviewer from "./reviewer.js";
import * as state from "./state.js";
import * as why from "./why.js";

const views = { errors, why, findings };

function show() {
  const name = state.view();
  const isNew = byId(`view-${name}`).hidden;
  for (const one of state.VIEWS) byId(`view-${one}`).hidden = one !== name;
  for (const link of document.querySelectorAll("nav a")) {
    link.href = state.address(link.dataset.view);
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  byId("json-twin").href = `/api/${name}?${new URLSearchParams(state.query(name))}`;
  document.title = `${name[0].toUpperCase()}${name.slice(1)} · ${project.project.name} · tagtrace`;
  if (isNew && !document.activeElement?.closest("header, dialog")) document.activeElement?.blur();
  return views[name].show();
}

const tools = {
  undo: () => decisions.step("undo"),
  redo: () => decisions.step("redo"),
  history: history.toggle,
  export: exporting.open,
  help: keys.showHelp,
  reviewer: () => reviewer.ask(project.project.reviewer),
};

function bindTools() {
  document.addEventListener("click", (event) => {
    const tool = event.target.closest("header [data-do], #history [data-do]")?.dataset.do;
    if (tool) tools[tool]();
    const link = event.target.closest("nav a[data-view]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    state.go(link.dataset.view);
  });
}

const everywhere = {
  u: tools.undo,
  U: tools.redo,
  h: tools.history,
  e: tools.export,
  "?": tools.help,
  "g e": () => state.go("errors"),
  "g w": () => state.go("why"),
  "g f": () => state.go("findings"),
  "g p": () => {
    state.go("findings");
    findings.keys["g p"]();
  },
};

/** After a decision reached the server; after undo and redo go to what changed. */
async function decided({ isStep, ranks = [] }) {
  history.refresh();
  await changes.check();
  if (!isStep) return;
  if (state.view() === "why") why.show({ again: true });
  if (state.view() === "findings" && ranks.length === 1) findings.goTo(ranks[0]);
}

function othersDecided(ranks, isMany) {
  history.refresh();
  patterns.load();
  if (isMany && state.view() === "findings") findings.reload();
}

function serverSeen(isThere) {
  if (!serverIsThere(isThere)) return;
  say("The server is back.");
  outbox.hurry();
  show();
}

async function start() {
  api.watch(serverSeen);
  reviewer.start(() => project.load().then(() => say(`You decide as ${project.project.reviewer}.`)));
  bindTools();
  Object.values(views).forEach((one) => one.start());
  history.start();
  exporting.start(() => changes.check().then(() => findings.reload()));
  keys.listen(() => [views[state.view()]?.keys ?? {}, everywhere]);
  state.follow(show);
  decisions.follow(decided);
  outbox.resume(
    () => changes.check(),
    (error) => say(`A decision made before the reload was refused: ${error.message}`),
  );
  await untilThere(project.load);
  state.setDefaults(project.project.asking);
  changes.follow(othersDecided);
  if (!state.view()) state.go(project.project.has.findings === false ? "errors" : "findings", {}, { replace: true });
  else state.go(state.view(), {}, { replace: true });
  patterns.load();
  if (project.project.note) setProblem(project.project.note);
}

/** Try until the server answers. */
async function untilThere(action) {
  for (;;) {
    try {
      return await action();
    } catch (error) {
      say(error.message);
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  }
}

start();
