// The Errors view: mispredictions on the held-out data.

import { get } from "../core/api.js";
import { byId, el, fill } from "../core/dom.js";
import { counted, shortNumber } from "../core/format.js";
import { say } from "../core/messages.js";
import { PagedList } from "../core/paged_list.js";
import { load, project } from "../core/project.js";
import * as state from "../core/state.js";
import { bindFilter, fillFilter } from "../parts/filter_form.js";
import { bar, inContext, placeOf, tags } from "../parts/text.js";
import { VirtualList } from "../parts/virtual_list.js";

const root = byId("view-errors");
const form = root.querySelector("form");
let shownFor = "";
let largest = 1;

export const list = new VirtualList(byId("errors-list"), {
  draw,
  chosen: (i) => state.remember({ at: i }),
  opened: open,
});

export function start() {
  bindFilter(form, { at: "" });
  form.querySelector("[data-do=why]").addEventListener("click", open);
}

export async function show() {
  const asked = JSON.stringify(state.query("errors"));
  fillFilter(form);
  if (asked === shownFor) {
    list.refresh();
    return;
  }
  shownFor = asked;
  const pages = new PagedList((offset, limit) => get("errors", { ...state.query("errors"), offset: offset(), limit }), {
    loaded: () => list.refresh(),
    failed: (error) => say(`The errors could not be loaded: ${error.message}`),
  });
  try {
    await pages.start();
  } catch (error) {
    shownFor = "";
    say(`The errors could not be loaded: ${error.message}`);
    return;
  }
  if (shownFor !== asked) return;
  const { preparing } = pages.first;
  if (preparing) {
    byId("errors-shown").textContent = `Predicting the held-out data: ${preparing[0]} of ${counted(preparing[1], "sentence")}`;
    setTimeout(() => shownFor === asked && [forget(), state.view() === "errors" && show()], 1000);
    return;
  }
  if (project.has.errors === false) await load();
  largest = Math.max(...pages.first.items.map((one) => one.loss), 0.001);
  fillPairs(pages.first.pairs ?? []);
  byId("errors-shown").textContent = pages.total
    ? counted(pages.total, "error")
    : project.has.errors
      ? "No errors match these filters."
      : 'This project has no held-out data. Add it as "dev" to project.json to see the errors of the tagger.';
  const at = Math.min(Number(state.value("at") || 0), pages.total - 1);
  list.show(pages, { at });
  if (document.activeElement === document.body) list.focus();
}

export function forget() {
  shownFor = "";
}

function fillPairs(pairs) {
  const chosen = state.value("pair");
  const names = pairs.map(([pair]) => pair);
  const options = [
    el("option", { value: "" }, "all"),
    ...pairs.map(([pair, number]) => el("option", { value: pair }, `${pair.replace(":", " → ")} (${number})`)),
  ];
  if (chosen && !names.includes(chosen)) options.push(el("option", { value: chosen }, chosen.replace(":", " → ")));
  fill(form.elements.pair, options);
  form.elements.pair.value = chosen;
}

function draw(row, one) {
  fill(
    row,
    el(
      "span",
      { class: "loss" },
      bar(one.loss, largest, shortNumber(one.loss)),
      el("span", { class: "unseen" }, " loss. "),
    ),
    inContext(one),
    el(
      "span",
      { class: "facts" },
      el("span", {}, "gold ", tags(one.gold)),
      el("span", {}, "predicted ", tags(one.predicted)),
      placeOf(one),
    ),
  );
}

function open() {
  const one = list.source?.at(list.at);
  if (one) state.go("why", { sentence: one.sentence, data: "", start: one.start, stop: one.stop, at: list.at });
  else say("Select an error first.");
}

export const keys = {
  ...list.keys,
  Enter: open,
  Escape: () => list.focus(),
  "/": () => form.elements.text.focus(),
};
