// The segment that the Why view explains: its sentence, its labels and their probabilities.

import { byId, el, fill, kbd } from "../core/dom.js";
import { percent } from "../core/format.js";
import * as state from "../core/state.js";
import { bar, BOUNDARIES, sentence, tags } from "../parts/text.js";

const place = byId("why-query");

/** `moveBoundary(side, step)` is called when a boundary button is pressed. */
export function drawQuery(query, moveBoundary) {
  const focused = document.activeElement?.dataset?.boundary;
  const isTrain = (query.origin ?? state.value("data")) === "train";
  const range = { start: query.start, stop: query.stop };
  const part = (labels) => labels.slice(query.start, query.stop);
  const labelled = (name, labels) =>
    el(
      "div",
      {},
      el("dt", {}, name),
      el("dd", {}, tags(part(labels)), " ", el("code", { class: "soft" }, part(labels).join(" "))),
    );
  fill(
    place,
    el(
      "div",
      { class: "query-text" },
      el(
        "p",
        { class: "soft" },
        el("bdi", {}, query.sentence),
        ` tokens ${query.start}:${query.stop}`,
        query.document ? [" · ", el("bdi", {}, query.document)] : null,
        isTrain ? " · training data" : " · held-out data",
      ),
      sentence(query.tokens, query.predicted, range),
    ),
    el(
      "div",
      { class: "query-labels" },
      el(
        "dl",
        { class: "facts" },
        labelled("predicted", query.predicted),
        query.gold ? labelled(isTrain ? "given" : "gold", query.gold) : null,
        el("div", {}, el("dt", {}, "explained"), el("dd", {}, el("code", {}, query.explained.join(" ")))),
      ),
      el(
        "div",
        { class: "row", role: "group", "aria-label": "Segment boundaries" },
        BOUNDARIES.map(([key, side, step, text]) =>
          el(
            "button",
            { type: "button", "data-boundary": key, onclick: () => moveBoundary(side, step) },
            text,
            " ",
            kbd(key),
          ),
        ),
      ),
    ),
    probabilities(query),
  );
  if (focused) place.querySelector(`[data-boundary="${CSS.escape(focused)}"]`)?.focus();
}

function probabilities(query) {
  const byToken = grouped(query.probabilities);
  const rows = [...byToken].map(([token, labels]) =>
    el(
      "tr",
      {},
      el("th", { scope: "row", dir: "auto" }, query.tokens[token] ?? String(token)),
      el(
        "td",
        {},
        likely(labels).map((one) =>
          el("span", { class: "probability" }, el("code", {}, one.label), bar(one.p, 1, percent(one.p))),
        ),
      ),
    ),
  );
  return el(
    "table",
    { class: "probabilities" },
    el("caption", {}, "Label probabilities"),
    el(
      "thead",
      { class: "unseen" },
      el("tr", {}, el("th", { scope: "col" }, "token"), el("th", { scope: "col" }, "labels")),
    ),
    el("tbody", {}, rows),
  );
}

/** The labels to show: the two most likely ones, and others with a probability of at least 0.5 %. */
const likely = (labels) => labels.filter((one, i) => i < 2 || one.p >= 0.005);

function grouped(list) {
  const found = new Map();
  for (const one of list) found.set(one.token, [...(found.get(one.token) ?? []), one]);
  return found;
}
