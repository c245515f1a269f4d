// A whole sentence to check: is every label right? A wrong segment is corrected first, then the sentence is marked.

import { get } from "../core/api.js";
import { decideSegment } from "../core/decisions.js";
import { byId, el, fill, kbd } from "../core/dom.js";
import { spelled, unitsOf } from "../core/labels.js";
import { say } from "../core/messages.js";
import { idle } from "../core/outbox.js";
import { project } from "../core/project.js";
import { labelsOf, moved } from "../core/segment_draft.js";
import { BOUNDARIES, placeOf, sentence, tag } from "./text.js";

const place = byId("sentence-check");
let shown = null;
let draft = null;
let unit = null;
let act = () => {};

/** `action(name, value)` is called when a button is pressed. */
export function follow(action) {
  act = action;
}

export const current = () => shown;

/** Show a sentence {sentence_number, tokens, given, labels, base}, or none if it is null. */
export function show(one) {
  shown = one;
  place.hidden = !one;
  if (!one) {
    fill(place);
    return;
  }
  const units = unitsOf(one.labels, project.scheme);
  choose(units.find(({ type }) => type !== "O") ?? units[0]);
  refresh(one);
}

/** Read the labels again once the server has every decision of this page. */
async function refresh(one) {
  await idle();
  const fresh = await get(`sentences/${one.sentence_number}`).catch(() => null);
  if (!fresh || one !== shown) return;
  Object.assign(one, fresh);
  draw();
}

function choose(one) {
  unit = one;
  draft = { ...one, isMoved: false };
  draw();
}

/** Select the next or the previous segment, or token outside of segments. */
export function move(step) {
  const units = unitsOf(shown.labels, project.scheme);
  const at = units.findIndex((one) => one.stop > draft.start);
  const next = units[at + step];
  if (!next) return;
  choose(next);
  say(`${shown.tokens.slice(next.start, next.stop).join(" ")}: ${spelled(shown.labels.slice(next.start, next.stop), project.scheme)}`);
}

export function moveBoundary(side, step) {
  draft = moved(draft, side, step, shown.tokens.length);
  draw();
}

/** Give the selected segment another type. */
export function relabel(type) {
  const one = shown;
  const given = one.labels.slice(unit.start, unit.stop);
  const { start, stop, labels } = labelsOf(draft, { start: unit.start, stop: unit.stop, given }, type, project.scheme);
  const before = one.labels;
  one.labels = before.map((label, t) => (t >= start && t < stop ? labels[t - start] : label));
  const segment = { sentence_number: one.sentence_number, start, stop, labels: one.given.slice(start, stop), base: one.base };
  decideSegment(segment, { action: "relabel", labels }, () => one === shown && draw());
  say(`${one.tokens.slice(draft.start, draft.stop).join(" ")} is now ${type}. Press c when every label is right.`);
  unit = { start: draft.start, stop: draft.stop, type };
  refresh(one);
}

function draw() {
  const focused = place.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  const button = (key, name, value, ...text) =>
    el("button", { type: "button", "data-key": `${name}-${value ?? ""}`, onclick: () => act(name, value) }, ...text, " ", kbd(key));
  const types = [...project.types.slice(0, 9).map((type, i) => [String(i + 1), type]), ...(project.scheme === "plain" ? [] : [["0", "O"]])];
  fill(
    place,
    el("h3", {}, "Is every label here right?"),
    sentence(shown.tokens, shown.labels, draft),
    placeOf({ ...shown, start: draft.start, stop: draft.stop }),
    el("div", { class: "row decisions", role: "group", "aria-label": "Decision" }, button("c", "confirm", null, "All right"), button("s", "skip", null, "Skip")),
    el(
      "div",
      { class: "row types", role: "group", "aria-label": "Label types of the selected segment" },
      types.map(([key, type]) => button(key, "relabel", type, tag(type))),
    ),
    el(
      "div",
      { class: "row boundaries", role: "group", "aria-label": "Selected segment" },
      button("←", "move", -1, "previous"),
      button("→", "move", 1, "next"),
      BOUNDARIES.map(([key, side, step, text]) =>
        el("button", { type: "button", "data-key": `${side}${step}`, onclick: () => moveBoundary(side, step) }, text, " ", kbd(key)),
      ),
    ),
  );
  if (focused) place.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}
