// Training and dev text with its labels. Every marked segment has the name of its label beside it.

import { el } from "../core/dom.js";
import { segmentsOf, spelled } from "../core/labels.js";
import { project } from "../core/project.js";

const NUM_COLOURS = 8;

/** The class that colours a type. */
export function colour(type) {
  const number = project.types.indexOf(type);
  return number < 0 ? "type-none" : `type-${number % NUM_COLOURS}`;
}

/** The name of a label, in its colour. */
export const tag = (type) => el("span", { class: `tag ${colour(type)}` }, type);

/** What labels spell, as tags. */
export function tags(labels) {
  const types = spelled(labels, project.scheme).split("+");
  return types.flatMap((type, i) => (i ? [" ", tag(type)] : [tag(type)]));
}

/** A segment with what stands before and after, in one line: the ends are cut off, never the segment. */
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

/** A whole sentence: labelled segments with their names, and tokens start:stop marked. */
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

/** Token by token, the label given and the new one: − and + where they differ, = where they do not. */
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

/** A bar as wide as `value` of `largest`, with its number; the width says nothing that the number does not. */
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

/** The four ways to move a boundary: key, side, step, words. */
export const BOUNDARIES = [
  ["[", "start", -1, "← start"],
  ["]", "start", 1, "start →"],
  ["⇧←", "stop", -1, "← end"],
  ["⇧→", "stop", 1, "end →"],
];

const SIGNS = { open: "○", accepted: "✓", rejected: "✗", skipped: "»" };

/** A status: a sign and its name. */
export function badge(status, isConflict = false) {
  return [
    el("span", { class: `badge ${status}` }, el("span", { "aria-hidden": "true" }, `${SIGNS[status] ?? ""} `), status),
    isConflict ? el("span", { class: "badge conflict" }, "⚠ conflict") : null,
  ];
}

/** Where a segment stands. */
export function placeOf(one) {
  return el(
    "span",
    { class: "soft" },
    el("bdi", {}, one.sentence),
    ` ${one.start}:${one.stop}`,
    one.document ? [" · ", el("bdi", {}, one.document)] : null,
  );
}
