// A dialog that shows many places before something is decided about all of them.

import { byId, el, fill } from "../core/dom.js";
import { counted } from "../core/format.js";
import { say } from "../core/messages.js";
import { badge, inContext } from "./text.js";

const SHOWN = 30;
const PAUSE = 200; // before the places that are not shown are read
const dialog = byId("preview");
const list = byId("preview-list");
const more = byId("preview-more");
/** What the dialog is about: its places, those left out, the ones still to come, and whether "all" was set, by true or false. */
let now = { places: [], off: new Set(), rest: null, isAll: null, action: () => {} };

/**
 * `rows`: {before, tokens, after, start, sentence, labels, proposed, status, isTicked}; ticked at first unless isTicked is false or
 * something was decided. `rest`: {number, ticked, load(isWanted)} of those still to come, or null; `action(chosen)` gets those
 * that are ticked in the end.
 */
export function preview({ title, about, rows, rest = null, verb }, action) {
  const own = { places: [], off: new Set(), rest, isAll: null, isWanted: true, action };
  now = own;
  add(own, rows);
  byId("preview-title").textContent = title;
  byId("preview-about").textContent = about;
  byId("preview-apply").dataset.verb = verb;
  fill(list);
  showMore();
  dialog.returnValue = "";
  dialog.showModal();
  list.scrollTop = 0;
  list.focus(); // not the button: a key too many must not decide
  setTimeout(() => own.isWanted && whole(own), PAUSE);
}

/** Read the places still to come, once; resolves to whether all are there. */
function whole(own) {
  own.isWhole ??= read(own);
  return own.isWhole;
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
    say(`Not all places could be read: ${error.message}`);
    return false;
  }
}

/** More places; those already decided, or not to be ticked, are left out until the reader ticks them. */
function add(own, rows) {
  rows.forEach((one, i) => {
    const isOn = own.isAll ?? (one.isTicked !== false && (one.status ?? "open") === "open");
    if (!isOn) own.off.add(own.places.length + i);
  });
  own.places = [...own.places, ...rows];
}

/** The next rows: every place can be looked at. */
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
  const { places, off, rest, isAll } = now;
  const total = places.length + (rest?.number ?? 0);
  const coming = isAll === null ? (rest?.ticked ?? 0) : isAll ? (rest?.number ?? 0) : 0;
  const number = places.length - off.size + coming;
  byId("preview-count").textContent = `${number.toLocaleString("en")} of ${counted(total, "place")} ticked`;
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
  if (!own.isWanted || !(await whole(own))) return;
  const chosen = own.places.filter((_, i) => !own.off.has(i));
  if (chosen.length) own.action(chosen);
});
