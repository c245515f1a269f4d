// A dialog that shows many places before something is decided about all of them.

import { byId, counted, el, fill } from "./dom.js";
import { badge, inContext } from "./text.js";

const SHOWN = 500;
const dialog = byId("preview");
const list = byId("preview-list");
let places = [];
let off = new Set();
let confirmed = () => {};

/** `rows`: {before, tokens, after, start, sentence, labels, proposed, status}; `action(chosen)` gets those that stay ticked. */
export function preview({ title, about, rows, verb }, action) {
  places = rows;
  confirmed = action;
  off = new Set(rows.flatMap((one, i) => (one.status && one.status !== "open" ? [i] : [])));
  byId("preview-title").textContent = title;
  byId("preview-about").textContent = about;
  byId("preview-apply").dataset.verb = verb;
  fill(
    list,
    rows.slice(0, SHOWN).map(row),
    rows.length > SHOWN ? el("li", { class: "soft" }, `and ${counted(rows.length - SHOWN, "more place")}`) : null,
  );
  tell();
  dialog.returnValue = "";
  dialog.showModal();
  byId("preview-apply").focus();
}

function row(one, i) {
  const tick = el("input", { type: "checkbox", onchange: (event) => toggle(i, event.target.checked) });
  tick.checked = !off.has(i);
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
  if (isOn) off.delete(i);
  else off.add(i);
  tell();
}

function tell() {
  const number = places.length - off.size;
  byId("preview-count").textContent = `${number.toLocaleString("en")} of ${counted(places.length, "place")}`;
  const apply = byId("preview-apply");
  apply.textContent = `${apply.dataset.verb} (${number.toLocaleString("en")})`;
  apply.disabled = number === 0;
  byId("preview-all").checked = off.size === 0;
}

byId("preview-all").addEventListener("change", (event) => {
  off = new Set(event.target.checked ? [] : places.keys());
  list.querySelectorAll("input").forEach((tick) => (tick.checked = event.target.checked));
  tell();
});
dialog.addEventListener("close", () => {
  if (dialog.returnValue === "apply") confirmed(places.filter((_, i) => !off.has(i)));
});
