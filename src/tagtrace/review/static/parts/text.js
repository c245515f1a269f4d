// Text with its labels. The name of the label is written beside every labelled segment.

import { el } from "../core/dom.js";
import { segmentsOf, spelled } from "../core/labels.js";
import { project } from "../core/project.js";

const NUM_COLOURS = 8;

/** The CSS class for the colour of a type. */
export function colour(type) {
  const number = project.types.indexOf(type);
  return number < 0 ? "type-none" : `type-${number % NUM_COLOURS}`;
}

/** The name of a type, in its colour. */
export const tag = (type) => el("span", { class: `tag ${colour(type)}` }, type);

/** The types of labels, as tags. */
export function tags(labels) {
  const types = spelled(labels, project.scheme).split("+");
  return types.flatMap((type, i) => (i ? [" ", tag(type)] : [tag(type)]));
}

/** A segment and its context in one line. If there is too little room, the context is cut off, not the segment. */
export function inContext({ before, tokens, after, start }) {
  const isCut = start === undefined || start > before.length;
  return el(
    "span",
    { class: "context", dir: "auto" },
    before.length ? el("span", { class: "before" }, el("bdi", {}, (isCut ? "… " : "") + before.join(" "))) : null,
    el("mark", {}, tokens.join(" ")),
    after.length ? el("span", { class: "after" }, el("bdi", {}, after.join(" "))) : null,
  );
}

/** A whole sentence with its labelled segments. Tokens start:stop are highlighted. */
export function sentence(tokens, labels, { start, stop }) {
  const found = segmentsOf(labels ?? tokens.map(() => "O"), labels ? project.scheme : "iob2");
  const owner = new Map(
    found.flatMap((one) => Array.from({ length: one.stop - one.start }, (_, t) => [one.start + t, one])),
  );
  const shown = el("p", { class: "sentence", dir: "auto" });
  for (let t = 0; t < tokens.length;) {
    const segment = owner.get(t);
    const isMarked = t >= start && t < stop;
    let end = t + 1;
    while (end < tokens.length && owner.get(end) === segment && (end >= start && end < stop) === isMarked) end++;
    shown.append(run(tokens.slice(t, end).join(" "), segment, isMarked, end === segment?.stop), " ");
    t = end;
  }
  return shown;
}

function run(text, segment, isMarked, isLast) {
  const name = segment && isLast && project.scheme !== "plain" ? tag(segment.type) : null;
  const classes = segment && project.scheme !== "plain" ? `segment ${colour(segment.type)}` : "";
  return el(isMarked ? "mark" : "span", { class: classes || null }, text, name ? " " : null, name);
}

/** A table of tokens with their given and new labels, marked − and + if they differ and = if they are the same. */
export function diff(tokens, given, proposed, { caption, heading = "proposed" }) {
  const cell = (label, sign, isSame) =>
    el("td", { class: isSame ? "same" : sign === "+" ? "plus" : "minus" }, `${isSame ? "=" : sign} ${label}`);
  const rows = tokens.map((token, t) =>
    el(
      "tr",
      {},
      el("th", { scope: "row", dir: "auto" }, token),
      cell(given[t], "\u2212", given[t] === proposed[t]),
      cell(proposed[t], "+", given[t] === proposed[t]),
    ),
  );
  return el(
    "table",
    { class: "diff" },
    el("caption", { class: "unseen" }, caption),
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        ["token", "given", heading].map((name) => el("th", { scope: "col" }, name)),
      ),
    ),
    el("tbody", {}, rows),
  );
}

/** A bar whose width is the share of `value` in `largest`, and its number as text. */
export function bar(value, largest, text) {
  const filled = el("i", {});
  filled.style.width = `${largest > 0 ? Math.min(100, (100 * Math.abs(value)) / largest) : 0}%`;
  return el(
    "span",
    { class: "bar" },
    el("span", { class: "bar-track", "aria-hidden": "true" }, filled),
    el("span", { class: "number" }, text),
  );
}

/** The four ways to move a boundary: key, side, step, text of the button. */
export const BOUNDARIES = [
  ["[", "start", -1, "← start"],
  ["]", "start", 1, "start →"],
  ["⇧←", "stop", -1, "← end"],
  ["⇧→", "stop", 1, "end →"],
];

const SIGNS = { open: "○", accepted: "✓", rejected: "✗", skipped: "»" };

/** A status as a symbol and its name. */
export function badge(status, isConflict = false) {
  return [
    el("span", { class: `badge ${status}` }, el("span", { "aria-hidden": "true" }, `${SIGNS[status] ?? ""} `), status),
    isConflict ? el("span", { class: "badge conflict" }, "⚠ conflict") : null,
  ];
}

/** The sentence, tokens and document of a segment. */
export function placeOf(one) {
  return el(
    "span",
    { class: "soft" },
    el("bdi", {}, one.sentence),
    ` ${one.start}:${one.stop}`,
    one.document ? [" · ", el("bdi", {}, one.document)] : null,
  );
}
