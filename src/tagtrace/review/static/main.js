// The entry point: connects the address, the views, the dialogs and the keyboard.

import * as api from "./core/api.js";
import * as decisions from "./core/decisions.js";
import { byId } from "./core/dom.js";
import * as keys from "./core/keys.js";
import { say, setAbsence, setProblem, showWaiting } from "./core/messages.js";
import * as otherReviewers from "./core/other_reviewers.js";
import * as outbox from "./core/outbox.js";
import * as project from "./core/project.js";
import * as state from "./core/state.js";
import * as teaching from "./core/teaching.js";
import * as history from "./parts/decision_history.js";
import * as exportDialog from "./parts/export.js";
import { showKeysHelp } from "./parts/keys_help.js";
import * as patterns from "./parts/patterns.js";
import * as progress from "./parts/progress.js";
import * as reviewerDialog from "./parts/reviewer_dialog.js";
import * as session from "./parts/short_session.js";
import * as errors from "./views/errors.js";
import * as findings from "./views/findings.js";
import * as why from "./views/why.js";

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
  undo: () => decisions.undoOrRedo("undo"),
  redo: () => decisions.undoOrRedo("redo"),
  history: history.toggle,
  export: exportDialog.open,
  help: showKeysHelp,
  reviewer: () => reviewerDialog.ask(project.project.reviewer),
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

/** Runs after the server saved a decision. After undo or redo, the view shows the finding that changed. */
async function decided({ isStep, ranks = [] }) {
  history.refresh();
  await otherReviewers.check();
  if (!isStep) return;
  if (state.view() === "why") why.show({ again: true });
  if (state.view() === "findings" && ranks.length === 1) findings.goTo(ranks[0]);
}

function othersDecided(isMany) {
  history.refresh();
  patterns.load();
  if (isMany && state.view() === "findings") findings.reload();
}

function serverSeen(absence) {
  if (!setAbsence(absence)) return;
  say("The server is back.");
  outbox.hurry();
  show();
}

async function start() {
  api.watch(serverSeen);
  outbox.watch(showWaiting);
  project.follow(progress.show);
  reviewerDialog.start(() => project.load().then(() => say(`Decisions are now saved under the name ${project.project.reviewer}.`)));
  bindTools();
  Object.values(views).forEach((one) => one.start());
  history.start();
  exportDialog.start(() => otherReviewers.check().then(() => findings.reload()));
  keys.listen(() => [state.view() === "findings" ? session.keys() : {}, views[state.view()]?.keys ?? {}, everywhere]);
  state.follow(show);
  decisions.follow(decided);
  teaching.follow(findings.ranked);
  outbox.resume(
    () => otherReviewers.check(),
    (error) => say(`A decision made before the page was reloaded was not saved: ${error.message}`),
  );
  await untilThere(project.load);
  state.setDefaults(project.project.asking);
  otherReviewers.follow(othersDecided);
  if (!state.view()) state.go(project.project.has.findings === false ? "errors" : "findings", {}, { replace: true });
  else state.go(state.view(), {}, { replace: true });
  patterns.load();
  if (project.project.note) setProblem(project.project.note);
}

/** Repeat an action every second until the server answers. */
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
