// The Why view: a segment, its label probabilities, and the training segments that support or oppose its labels.

import { get } from "../core/api.js";
import { decideSegment, isKept } from "../core/decisions.js";
import { byId, el, fill, kbd, later } from "../core/dom.js";
import { shortNumber } from "../core/format.js";
import { follow } from "../core/jobs.js";
import { spell, typeOf } from "../core/labels.js";
import { say } from "../core/messages.js";
import { project } from "../core/project.js";
import * as state from "../core/state.js";
import { bindFilter, fillFilter } from "../parts/filter_form.js";
import { badge, bar, inContext, placeOf, tags } from "../parts/text.js";
import { drawQuery } from "./query.js";
import * as whatIf from "./what_if.js";

const root = byId("view-why");
const form = root.querySelector("form");
const SIDES = ["supporters", "opposers"];
let shownFor = "";
let answer = null;
let asking = null;
let at = 0;

export function start() {
  bindFilter(form);
  whatIf.start({
    places,
    target: () => ({ ...placeAsked(), target: state.value("target") }),
    tokens: () => answer?.query.tokens ?? [],
    isPrepared: () => answer?.is_what_if_ready !== false,
    wanted: () => answer?.query.gold && typeOf(answer.query.gold[answer.query.start], project.scheme),
  });
  for (const side of SIDES) {
    byId(side).addEventListener("click", (event) => {
      const row = event.target.closest("[role=option]");
      if (row) choose(Number(row.dataset.at), true);
    });
    byId(side).addEventListener("dblclick", open);
  }
}

function placeAsked() {
  const { sentence: id, data, start: first, stop: last } = state.query("why");
  return { sentence: id, ...(data ? { data } : {}), start: Number(first), stop: Number(last) };
}

export async function show({ again = false } = {}) {
  fillTargets();
  fillFilter(form);
  const query = state.query("why");
  const asked = JSON.stringify(query);
  if (asked === shownFor && !again) return;
  if (!query.sentence || !query.start || !query.stop) {
    explainNothing();
    return;
  }
  shownFor = asked;
  asking?.abort();
  asking = new AbortController();
  byId("why-shown").textContent = "Loading…";
  root.setAttribute("aria-busy", "true");
  try {
    answer = await get("why", { ...query, wait: false }, asking.signal);
    if (!again) [at] = [0, whatIf.clear()];
    draw();
    byId("why-shown").textContent = `${(answer.seconds ?? 0).toFixed(2)} s`;
    if (answer.is_ready === false) prepare(query, asked);
    if (document.activeElement === document.body) focusRow();
  } catch (error) {
    if (error.name === "AbortError") return;
    shownFor = "";
    byId("why-shown").textContent = error.message;
    say(`The explanation could not be loaded: ${error.message}`);
  }
  root.removeAttribute("aria-busy");
}

/** Have the server compute the curvature or the score that this answer does not use yet, then ask again. */
async function prepare(query, asked) {
  const { curvature, score, kind } = query;
  const isWhole = score === "whole";
  const missing = isWhole ? "by cosine; the score through the whole tagger" : "without curvature, which";
  const place = byId("why-shown");
  const isWanted = () => shownFor === asked;
  const tell = (progress) => {
    const part = progress ? `, ${Math.floor((100 * progress[0]) / progress[1])} %` : "";
    place.textContent = `Shown ${missing} is being computed${part}…`;
  };
  tell(null);
  try {
    const about = isWhole ? { ...placeAsked(), target: state.value("target"), top: Number(query.top ?? 20) } : {};
    if (!(await follow({ kind: "prepare", curvature, score, training: kind, ...about }, tell, isWanted))) return;
  } catch (error) {
    if (isWanted()) place.textContent = `Shown ${missing} could not be computed: ${error.message}`;
    return;
  }
  if (state.view() !== "why") forget();
  else if (!isTouched()) show({ again: true });
  else {
    fill(place, el("button", { type: "button", onclick: () => show({ again: true }) }, isWhole ? "Update" : "Update with curvature"));
    say("The computation is done. Update the explanation to use it.");
  }
}

/** Whether the reader has used the answer, in which case it must not change by itself. */
const isTouched = () => at !== 0 || whatIf.isAsked() || segments().some((one) => one.isMarked || one.decision);

function explainNothing() {
  answer = null;
  shownFor = "";
  byId("why-shown").textContent = "";
  fill(
    byId("why-query"),
    el(
      "p",
      {},
      "No segment is selected. Select an error or a finding and press ",
      kbd("⏎"),
      ": ",
      el("a", { href: state.address("errors") }, "errors"),
      " · ",
      el("a", { href: state.address("findings") }, "findings"),
      ".",
    ),
  );
  SIDES.forEach((side) => fill(byId(side)));
  whatIf.clear();
}

function fillTargets() {
  const field = form.elements.target;
  const chosen = state.value("target");
  const others = [...project.types, ...(project.scheme === "plain" ? [] : ["O"])];
  const listed = others.includes(chosen) || ["predicted", "gold"].includes(chosen) ? others : [...others, chosen];
  fill(
    field,
    [
      ["predicted", "the predicted labels"],
      ["gold", "the gold labels"],
      ...listed.map((type) => [type, `the label ${type}`]),
    ].map(([value, text]) => el("option", { value }, text)),
  );
}

export const forget = () => (shownFor = "");

function segments() {
  return answer ? [...answer.supporters, ...answer.opposers] : [];
}

/** The training segments for a what-if: the marked ones, or else the selected one. */
function places() {
  const marked = segments().filter((one) => one.isMarked);
  const one = segments()[at];
  return marked.length ? marked : one ? [one] : [];
}

function draw() {
  drawQuery(answer.query, moveBoundary);
  const largest = Math.max(...segments().map((one) => Math.abs(one.score)), 1e-12);
  let number = 0;
  for (const side of SIDES) {
    const rows = answer[side].map((one, i) => row(one, number + i, largest, i, answer[side].length));
    fill(
      byId(side),
      rows.length
        ? rows
        : el("div", { class: "soft", role: "option", "aria-selected": "false", "aria-disabled": "true" }, "None found."),
    );
    number += answer[side].length;
  }
  whatIf.show();
}

function row(one, number, largest, i, size) {
  return el(
    "div",
    {
      role: "option",
      id: `evidence-${number}`,
      "data-at": number,
      tabindex: number === at ? 0 : -1,
      "aria-selected": String(number === at),
      "aria-posinset": i + 1,
      "aria-setsize": size,
      class: one.isMarked ? "marked" : null,
    },
    el("span", { class: "score" }, bar(one.score, largest, shortNumber(one.score))),
    inContext(one),
    el(
      "span",
      { class: "facts" },
      el("span", {}, tags(one.labels)),
      one.isMarked ? el("span", { class: "badge" }, "◆ marked") : null,
      one.decision
        ? [
            badge(one.decision.status),
            one.decision.labels?.length ? el("span", {}, "→ ", tags(one.decision.labels)) : null,
          ]
        : null,
      placeOf(one),
    ),
  );
}

function redraw() {
  const hadFocus = SIDES.some((side) => byId(side).contains(document.activeElement));
  if (answer) draw();
  if (hadFocus) focusRow();
}

function focusRow() {
  const found = byId(`evidence-${at}`);
  found?.focus({ preventScroll: true });
  found?.scrollIntoView({ block: "nearest" });
}

function choose(number, isFocused = true) {
  if (!segments()[number]) return;
  for (const [i, isChosen] of [
    [at, false],
    [number, true],
  ]) {
    const found = byId(`evidence-${i}`);
    found?.setAttribute("aria-selected", String(isChosen));
    if (found) found.tabIndex = isChosen ? 0 : -1;
  }
  at = number;
  if (isFocused) focusRow();
  whatIf.show();
}

const move = (step) => choose(Math.max(0, Math.min(at + step, segments().length - 1)));

function cross(side) {
  const split = answer?.supporters.length ?? 0;
  const isLeft = at < split;
  if (side === "right" && isLeft && answer.opposers.length) choose(split + Math.min(at, answer.opposers.length - 1));
  if (side === "left" && !isLeft && split) choose(Math.min(at - split, split - 1));
}

const askAgain = later(250, () => state.go("why", {}, { replace: true }));

function moveBoundary(side, step) {
  if (!answer) return;
  const place = placeAsked();
  const next = { ...place, [side]: place[side] + step };
  if (next.start < 0 || next.stop > answer.query.tokens.length || next.start >= next.stop) return;
  state.remember({ start: next.start, stop: next.stop });
  Object.assign(answer.query, { start: next.start, stop: next.stop });
  drawQuery(answer.query, moveBoundary);
  say(`Segment: ${answer.query.tokens.slice(next.start, next.stop).join(" ")} (${next.start}:${next.stop})`);
  askAgain();
}

/** Explain the selected training segment itself. */
function open() {
  const one = segments()[at];
  if (one) state.go("why", { sentence: one.sentence, data: "train", start: one.start, stop: one.stop });
}

function decide(action, type) {
  const one = segments()[at];
  if (!one) return;
  if (action === "relabel" && one.tokens.length !== one.stop - one.start) {
    say("Sentences and documents cannot be relabelled. Choose tokens, entities or segments as training units.");
    return;
  }
  const labels = action === "relabel" ? spell(type, one.stop - one.start, project.scheme) : null;
  decideSegment(one, { action, labels }, redraw);
  const isSameLabel = isKept({ labels }, one.labels);
  const kept = "the given label is kept";
  const done = { relabel: isSameLabel ? kept : `relabelled as ${type}`, reject: kept, skip: "skipped" }[action];
  say(`“${one.tokens.join(" ")}”: ${done}.`);
}

function mark() {
  const one = segments()[at];
  if (!one) return;
  one.isMarked = !one.isMarked;
  redraw();
}

export const keys = {
  j: () => move(1),
  ArrowDown: () => move(1),
  k: () => move(-1),
  ArrowUp: () => move(-1),
  ArrowLeft: () => cross("left"),
  ArrowRight: () => cross("right"),
  Home: () => choose(0),
  End: () => choose(segments().length - 1),
  Enter: open,
  Escape: focusRow,
  "/": () => form.elements.target.focus(),
  a: () => say("No label is proposed here. Press 1 to 9 to choose a type, or r if the given label is right."),
  r: () => decide("reject"),
  s: () => decide("skip"),
  m: mark,
  x: () => whatIf.remove(),
  t: () => whatIf.relabel(),
  v: () => whatIf.verify(),
  w: () => whatIf.retrain(),
  "Shift+ArrowLeft": () => moveBoundary("stop", -1),
  "Shift+ArrowRight": () => moveBoundary("stop", 1),
  "[": () => moveBoundary("start", -1),
  "]": () => moveBoundary("start", 1),
  ...Object.fromEntries(
    Array.from({ length: 9 }, (_, i) => [
      String(i + 1),
      () => (project.types[i] ? decide("relabel", project.types[i]) : say(`There is no label type ${i + 1}.`)),
    ]),
  ),
  0: () => project.scheme !== "plain" && decide("relabel", "O"),
};
