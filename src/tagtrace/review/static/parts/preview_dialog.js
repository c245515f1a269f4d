// The dialog that lists many segments before a decision is applied to the selected ones.

import { byId, el, fill } from "../core/dom.js";
import { counted } from "../core/format.js";
import { say } from "../core/messages.js";
import { badge, inContext } from "./text.js";

const SHOWN = 30;
const PAUSE = 200; // milliseconds before the segments that are not shown are loaded
const dialog = byId("preview");
const list = byId("preview-list");
const more = byId("preview-more");
/**
 * The content of the dialog: the segments loaded, the indices of those not selected, the rest that is still to be loaded,
 * and the last value of "Select all" (null if it was not used).
 */
let now = { places: [], off: new Set(), rest: null, isAll: null, noun: "occurrence", action: () => {} };

/**
 * Open the dialog. `about` is text, or elements. `rows` are {before, tokens, after, start, sentence, labels, proposed,
 * status, isTicked}; a row is selected at first unless `isTicked` is false or it was decided already. `rest` describes the
 * rows that are still to be loaded, {number, ticked, load(isWanted)}, or is null. `noun` names a row. `action(chosen)` gets
 * the rows that are selected when the dialog is confirmed.
 */
export function preview({ title, about, rows, rest = null, noun, verb }, action) {
  const own = { places: [], off: new Set(), rest, isAll: null, isWanted: true, noun, action };
  now = own;
  add(own, rows);
  byId("preview-title").textContent = title;
  fill(byId("preview-about"), about);
  byId("preview-apply").dataset.verb = verb;
  fill(list);
  showMore();
  dialog.returnValue = "";
  dialog.showModal();
  list.scrollTop = 0;
  list.focus(); // not the button, so that one key press too many does not apply the change
  setTimeout(() => own.isWanted && loadAll(own), PAUSE);
}

/** Load the remaining rows, once. Resolves to whether all rows are loaded. */
function loadAll(own) {
  own.isLoaded ??= read(own);
  return own.isLoaded;
}

async function read(own) {
  try {
    const others = (await own.rest?.load(() => own.isWanted)) ?? [];
    own.rest = null;
    add(own, others);
    if (own === now) tell();
    return true;
  } catch (error) {
    if (own === now) dialog.close("failed");
    say(`Not all ${own.noun}s could be loaded: ${error.message}`);
    return false;
  }
}

/** Add rows. Those that are decided already, or not to be selected at first, are not selected. */
function add(own, rows) {
  rows.forEach((one, i) => {
    const isOn = own.isAll ?? (one.isTicked !== false && (one.status ?? "open") === "open");
    if (!isOn) own.off.add(own.places.length + i);
  });
  own.places = [...own.places, ...rows];
}

/** Show the next rows. */
function showMore() {
  const first = list.children.length;
  list.append(...now.places.slice(first, first + SHOWN).map((one, i) => row(one, first + i)));
  tell();
}

function row(one, i) {
  const tick = el("input", { type: "checkbox", onchange: (event) => toggle(i, event.target.checked) });
  tick.checked = !now.off.has(i);
  return el(
    "li",
    {},
    el(
      "label",
      {},
      tick,
      inContext(one),
      el(
        "span",
        { class: "facts" },
        el("code", { class: "minus" }, `\u2212 ${one.labels.join(" ")}`),
        " ",
        el("code", { class: "plus" }, `+ ${one.proposed.join(" ")}`),
        " ",
        el("bdi", { class: "soft" }, `${one.sentence} ${one.start}:${one.stop}`),
        one.status && one.status !== "open" ? badge(one.status) : null,
      ),
    ),
  );
}

function toggle(i, isOn) {
  if (isOn) now.off.delete(i);
  else now.off.add(i);
  tell();
}

function tell() {
  const { places, off, rest, isAll, noun } = now;
  const total = places.length + (rest?.number ?? 0);
  const coming = isAll === null ? (rest?.ticked ?? 0) : isAll ? (rest?.number ?? 0) : 0;
  const number = places.length - off.size + coming;
  byId("preview-count").textContent = `${number.toLocaleString("en")} of ${counted(total, noun)} selected`;
  const apply = byId("preview-apply");
  apply.textContent = `${apply.dataset.verb} (${number.toLocaleString("en")})`;
  apply.disabled = number === 0;
  byId("preview-all").checked = number === total;
  byId("preview-all").indeterminate = number > 0 && number < total;
  const hidden = places.length - list.children.length;
  more.hidden = hidden <= 0;
  more.textContent = `Show ${Math.min(hidden, SHOWN)} more of ${hidden.toLocaleString("en")}`;
}

more.addEventListener("click", () => {
  const first = list.children.length;
  showMore();
  list.children[first]?.querySelector("input").focus();
});
byId("preview-all").addEventListener("change", (event) => {
  now.isAll = event.target.checked;
  now.off = new Set(now.isAll ? [] : now.places.keys());
  list.querySelectorAll("input").forEach((tick) => (tick.checked = event.target.checked));
  tell();
});
dialog.addEventListener("close", async () => {
  const own = now;
  own.isWanted = dialog.returnValue === "apply";
  if (!own.isWanted || !(await loadAll(own))) return;
  const chosen = own.places.filter((_, i) => !own.off.has(i));
  if (chosen.length) own.action(chosen);
});
