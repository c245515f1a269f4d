// The history of decisions, the newest first.

import { get, itemsOf } from "../core/api.js";
import { byId, el, fill } from "../core/dom.js";
import { clock } from "../core/format.js";
import { isSame } from "../core/labels.js";
import { say } from "../core/messages.js";
import * as state from "../core/state.js";

const SIZE = 50;
const panel = byId("history");
const list = byId("history-list");
let shown = 0;

export function start() {
  byId("history-more").addEventListener("click", () => load(shown));
  list.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-rank]");
    if (!link || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    state.go("findings", { rank: link.dataset.rank });
  });
}

export function toggle() {
  panel.hidden = !panel.hidden;
  document
    .querySelectorAll("[data-do=history]")
    .forEach((button) => button.setAttribute("aria-expanded", String(!panel.hidden)));
  if (panel.hidden) return;
  load(0);
  say("The history is open.");
}

/** Load the history again if it is open. */
export function refresh() {
  if (!panel.hidden) load(0);
}

async function load(offset) {
  try {
    const answer = await get("history", { offset, limit: SIZE });
    const items = itemsOf(answer);
    if (offset) list.append(...items.map(entry));
    else fill(list, [...(answer.unreadable ?? []).map(unreadable), ...items.map(entry)]);
    shown = offset + items.length;
    byId("history-more").hidden = items.length < SIZE;
    if (!shown && !answer.unreadable?.length) fill(list, el("li", { class: "soft" }, "No decisions yet."));
  } catch (error) {
    say(`The history could not be loaded: ${error.message}`);
  }
}

const LONG = 8; // labels, as of a whole sentence

function changeOf({ given = [], labels }) {
  const number = labels.filter((label, t) => label !== given[t]).length;
  if (labels.length > LONG) return `${number} of ${labels.length} labels changed`;
  return [el("code", {}, given.join(" ")), " → ", el("code", {}, labels.join(" "))];
}

const unreadable = (one) =>
  el("li", { class: "notice" }, `Decision ${one.id} cannot be read and does not count: ${one.problem}`);

function entry(one) {
  const place = `${one.sentence ?? ""} ${one.start ?? ""}:${one.stop ?? ""}`;
  const about = one.rank
    ? el("a", { href: state.address("findings", { rank: one.rank }), "data-rank": one.rank }, `finding ${one.rank}`)
    : el("bdi", {}, place);
  const change =
    one.labels?.length && ["accept", "relabel"].includes(one.action)
      ? el(
          "span",
          { class: "change" },
          changeOf(one),
          isSame(one.labels, one.given ?? []) ? " (rejected: given labels kept)" : null,
        )
      : null;
  return el(
    "li",
    { class: one.undone ? "undone" : null },
    el(
      "span",
      { class: "row" },
      el("strong", {}, one.action),
      about,
      one.undone ? el("span", { class: "badge" }, "undone") : null,
    ),
    change,
    one.note ? el("span", { class: "note", dir: "auto" }, one.note) : null,
    el("span", { class: "soft" }, `${clock(one.time)} · `, el("bdi", {}, one.reviewer ?? "")),
  );
}
