// A short session: the questions that are worth most, one after the other, with what is left.

import { get } from "../core/api.js";
import { confirmSentence } from "../core/decisions.js";
import { byId, el, fill, kbd } from "../core/dom.js";
import * as store from "../core/finding_store.js";
import { say } from "../core/messages.js";
import { idle } from "../core/outbox.js";
import { Questions } from "../core/questions.js";
import * as teaching from "../core/teaching.js";
import * as detail from "./finding_detail.js";
import * as check from "./sentence_check.js";

const REASONS = {
  likely: "probably wrong",
  teaches: "its answer says most about the others",
  sample: "a sentence of the random sample",
};
const bar = byId("session");
let questions = null;
let loading = null; // the questions whose next one is being loaded
let line = "";
let over = () => {};

/** `ended(rank)` runs after a session; the rank is 0 if the list is to begin at its start. */
export function start(ended) {
  over = ended;
  check.follow(act);
}

export const isOn = () => questions !== null;

/** Begin a session, or end the one that is on. */
export function toggle() {
  if (questions) end();
  else begin();
}

async function begin() {
  const isOpen = ({ finding }) => !finding || (store.known(finding.rank)?.status ?? "open") === "open";
  const mine = new Questions(fetchQuestions, isOpen);
  questions = mine;
  await next();
}

/** The next questions; if there are none yet, the server is asked to find some. */
async function fetchQuestions(count) {
  await idle();
  const found = await get("questions", { count });
  if (found.items.length && !line) taught(await get("teaching"));
  if (found.items.length || !(await teaching.teach())) return found;
  return get("questions", { count });
}

/** Ask the next question. */
export async function next() {
  const mine = questions;
  if (loading === mine) return;
  loading = mine;
  try {
    const one = await mine.next();
    if (mine !== questions) return;
    if (one) ask(one);
    else finish(mine);
  } catch (error) {
    if (mine === questions) end();
    say(`The next question could not be loaded: ${error.message}`);
  } finally {
    if (loading === mine) loading = null;
  }
}

function ask({ finding, sentence }) {
  draw();
  detail.show(finding && store.keep(finding));
  check.show(finding ? null : sentence);
  byId("detail-body").hidden = !finding;
}

function finish({ number }) {
  end();
  if (number) teaching.teach();
  else say("There is nothing to ask: all findings are decided.");
}

/** End the session; the list is shown again, at the finding with this rank if it is given. */
export function end(rank = 0) {
  if (!questions) return;
  questions = null;
  bar.hidden = true;
  check.show(null);
  byId("detail-body").hidden = false;
  say("The session has ended.");
  over(rank);
}

/** The reviewer goes back to an earlier finding; the current question is asked again after it. */
export function putBack() {
  questions?.putBack();
  check.show(null);
  byId("detail-body").hidden = false;
}

/** Show what was learned. */
export function taught(found) {
  line = found.line;
  if (!questions) return;
  questions.refresh();
  draw();
}

function draw() {
  bar.hidden = false;
  fill(
    bar,
    el("strong", {}, `Question ${Math.max(questions.number, 1)} of ${questions.length}`),
    el("span", {}, REASONS[questions.current?.reason] ?? ""),
    el("button", { type: "button", onclick: () => end() }, "End ", kbd("S")),
    el("span", { class: "soft" }, line),
  );
}

/** Apply an action to the sentence that is asked about. Returns false if a finding is to be decided. */
export function act(name, value) {
  if (questions && loading === questions) {
    say("The next question is being loaded.");
    return true;
  }
  const one = check.current();
  if (!one) return false;
  const actions = {
    confirm: () => {
      confirmSentence({ ...one, sentence_length: one.tokens.length });
      say("The sentence is marked as correct.");
      next();
    },
    skip: next,
    relabel: () => check.relabel(value),
    move: () => check.move(value),
  };
  if (actions[name]) actions[name]();
  else say("This is a question about the whole sentence: press c if every label is right.");
  return true;
}

/** The keys that have another meaning during a session. */
export const keys = () => (questions ? { j: next, ArrowDown: next, k: stay, ArrowUp: stay, Escape: () => end(), ...(check.current() ? OF_SENTENCE : {}) } : {});

const stay = () => say("Press u to undo the last decision, or S to end the session.");
const OF_SENTENCE = {
  ArrowLeft: () => act("move", -1),
  ArrowRight: () => act("move", 1),
  "Shift+ArrowLeft": () => check.moveBoundary("stop", -1),
  "Shift+ArrowRight": () => check.moveBoundary("stop", 1),
  "[": () => check.moveBoundary("start", -1),
  "]": () => check.moveBoundary("start", 1),
};
