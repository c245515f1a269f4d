// The Findings view: patterns, the list of findings, and the selected finding.

import { get } from "../core/api.js";
import { confirmSentence, decide, givenOf, isKept } from "../core/decisions.js";
import { byId, el, fill } from "../core/dom.js";
import * as store from "../core/finding_store.js";
import { counted, percent } from "../core/format.js";
import { say } from "../core/messages.js";
import { idle } from "../core/outbox.js";
import { PagedList } from "../core/paged_list.js";
import { project } from "../core/project.js";
import * as state from "../core/state.js";
import { teach } from "../core/teaching.js";
import { acceptPattern, applyToAll } from "../parts/bulk_decisions.js";
import { bindFilter, fillFilter } from "../parts/filter_form.js";
import * as detail from "../parts/finding_detail.js";
import { askNote } from "../parts/note_dialog.js";
import * as patterns from "../parts/patterns.js";
import * as session from "../parts/short_session.js";
import { badge, inContext, tags } from "../parts/text.js";
import { VirtualList } from "../parts/virtual_list.js";

const root = byId("view-findings");
const form = root.querySelector("form");
const acceptAll = form.querySelector("[data-do=accept-all]");
let shownFor = "";
let rankShown = 0;

export const list = new VirtualList(byId("findings-list"), { draw, chosen, opened: () => act("why") });

export function start() {
  byId("patterns-fold").open = !matchMedia("(max-width: 64rem)").matches;
  bindFilter(form, { rank: "" });
  detail.follow(act);
  acceptAll.addEventListener("click", acceptPattern);
  form.querySelector("[data-do=teach]").addEventListener("click", teach);
  form.querySelector("[data-do=session]").addEventListener("click", session.toggle);
  session.start(reload);
  root.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-pattern]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    state.go("findings", { pattern: link.dataset.pattern, rank: "" });
  });
  store.follow((rank) => {
    list.refresh({ items: true });
    const one = detail.current();
    if (one?.rank === rank) {
      detail.resetDraft();
      detail.show(one);
    }
  });
}

export async function show() {
  const asked = JSON.stringify(state.query("findings"));
  fillFilter(form);
  patterns.show();
  acceptAll.hidden = !state.value("pattern");
  if (project.has.findings === false) {
    byId("findings-shown").textContent =
      'This project has no findings. Run tagtrace audit, and add its folder as "audit" to project.json.';
    detail.show(null);
    return;
  }
  const rank = Number(state.value("rank"));
  if (asked === shownFor) {
    list.refresh();
    if (rank && rank !== rankShown) await goTo(rank);
    return;
  }
  shownFor = asked;
  if (session.isOn()) session.end(rank);
  else await reload(rank);
}

/** Show that the findings were ranked again. The reviewer stays at the same finding, wherever it is now. */
export function ranked(found, isNew) {
  byId("taught").textContent = found.line;
  session.taught(found);
  if (!isNew) return;
  say(`${found.line[0].toUpperCase()}${found.line.slice(1)}.`);
  if (!session.isOn() && shownFor) reload();
}

/** Load the list again and stay at the finding with this rank, by default where the reviewer is by then. */
export async function reload(asks = null) {
  const asked = shownFor;
  const rank = asks ?? rankShown;
  const status = state.value("status");
  const pages = new PagedList(fetchPage, {
    remains: (one) => status === "all" || (status === "conflict" ? one.conflict : one.status === status),
    loaded: () => list.refresh(),
    stale: () => shownFor === asked && list.source === pages && setTimeout(() => reload()),
    failed: (error) => say(`The findings could not be loaded: ${error.message}`),
  });
  try {
    await pages.start(rank ? { rank } : {});
    if (shownFor !== asked || session.isOn()) return;
    if (asks === null && rank !== rankShown) {
      await reload(); // the reviewer has gone on
      return;
    }
    byId("findings-shown").textContent = pages.total ? counted(pages.total, "finding") : "No findings match these filters.";
    await stand(pages, rank);
  } catch (error) {
    shownFor = "";
    say(`The findings could not be loaded: ${error.message}`);
  }
}

async function fetchPage(offset, limit, more = {}) {
  await idle(); // so that the server has every decision that this page has made
  const answer = await get("findings", { ...state.query("findings"), offset: offset(), limit, ...more });
  return { ...answer, items: answer.items.map(store.keep) };
}

/** Show the list and select the finding with this rank. A finding that does not match the filters is shown beside the list. */
async function stand(pages, rank) {
  const at = rank ? pages.first.place : 0;
  const isThere = pages.at(at) && (!rank || pages.at(at).rank === rank);
  list.show(pages, isThere ? { at } : { stop: at });
  if (isThere) chosen(at, pages.at(at));
  else if (rank) await showOutside(rank);
  else detail.show(null);
  if (document.activeElement === document.body) list.focus();
}

async function showOutside(rank) {
  try {
    const one = store.keep(await get(`findings/${rank}`));
    rankShown = rank;
    detail.show(one);
    if (!session.isOn()) say(`Finding ${rank} (${one.status}) does not match the filters of the list.`);
  } catch (error) {
    detail.show(null);
    say(`Finding ${rank} could not be loaded: ${error.message}`);
  }
}

/** Go to a finding in the current list. */
export async function goTo(rank) {
  const pages = list.source;
  if (!pages) return;
  if (session.isOn()) {
    session.putBack();
    await showOutside(rank);
    return;
  }
  const at = pages.items.findIndex((one) => one?.rank === rank);
  if (at >= 0) list.choose(at);
  else await reload(rank);
}

function chosen(at, one) {
  if (!one) {
    list.source.fetched(at).then((found) => list.at === at && found && chosen(at, found));
    return;
  }
  rankShown = one.rank;
  state.remember({ rank: one.rank });
  session.end(one.rank);
  detail.show(one);
}

function draw(row, one) {
  fill(
    row,
    el("span", { class: "rank" }, `#${one.rank}`),
    inContext(one),
    el(
      "span",
      { class: "facts" },
      badge(one.status, one.conflict),
      el(
        "span",
        {},
        tags(one.given),
        " → ",
        tags(one.status === "accepted" && one.decided?.labels?.length ? one.decided.labels : one.proposed),
      ),
      el(
        "span",
        { class: "soft" },
        percent(one.confidence),
        one.pattern ? ` · pattern ${one.pattern}` : "",
        one.document ? [" · ", el("bdi", {}, one.document)] : null,
      ),
    ),
  );
}

/** Apply an action to the selected finding. */
function act(name, value) {
  if (session.act(name, value)) return;
  const moving = detail.settled();
  if (moving) {
    moving.then(() => act(name, value));
    return;
  }
  const one = detail.current();
  if (!one) {
    say("Select a finding first.");
    return;
  }
  const actions = {
    accept: () => conclude(one, detail.acceptance(), "accepted"),
    reject: () => conclude(one, { action: "reject" }, "rejected"),
    skip: () => conclude(one, { action: "skip" }, "skipped"),
    relabel: () => conclude(one, detail.relabelled(value), `relabelled as ${value}`),
    confirm: () => {
      confirmSentence(one);
      say(`The sentence of finding ${one.rank} is marked as correct.`);
      goOn(one);
    },
    reopen: () => {
      if (one.status === "open") return;
      decide(one, { action: "reopen" });
      say(`Finding ${one.rank} reopened.`);
    },
    note: () =>
      askNote(`Finding ${one.rank}: ${one.tokens.join(" ")}`, one.note ?? "", (note) => {
        decide(one, { action: "note", note });
        say(`The note on finding ${one.rank} was saved.`);
      }),
    why: () =>
      state.go("why", { sentence: one.sentence, data: "train", start: one.start, stop: one.stop, rank: one.rank }),
    occurrences: () => applyToAll(one, detail.acceptance(), detail.loadSentence),
  };
  actions[name]();
}

/** Make a decision and go to the next finding. */
function conclude(one, change, done) {
  decide(one, change);
  if (isKept(change, givenOf(one, change))) done = "rejected: the given labels are kept";
  const coming = session.isOn() ? null : nextOf(one);
  say(`Finding ${one.rank} ${done}.${coming ? ` Next: ${coming.tokens.join(" ")}` : ""}`);
  goOn(one);
}

const isInList = (one) => list.source?.at(list.at) === one;
const nextOf = (one) => (isInList(one) ? list.source.at(list.at + 1) : null);

/** Go to the next question of a session, or to the next finding of the list. */
function goOn(one) {
  if (session.isOn()) {
    session.next();
    return;
  }
  if (!isInList(one) || list.at === list.source.total - 1) return;
  const hadFocus = list.hasFocus || document.activeElement === document.body;
  list.choose(list.at + 1, { focus: hadFocus });
}

const openFilter = () => form.elements.text.focus();
const focusPatterns = () => {
  byId("patterns-fold").open = true;
  (root.querySelector(".patterns a[aria-current]") ?? root.querySelector(".patterns a"))?.focus();
};

export const keys = {
  ...list.keys,
  a: () => act("accept"),
  r: () => act("reject"),
  s: () => act("skip"),
  c: () => act("confirm"),
  x: () => act("reopen"),
  t: teach,
  S: session.toggle,
  o: () => act("occurrences"),
  n: () => act("note"),
  Enter: () => act("why"),
  "Shift+ArrowLeft": () => detail.moveBoundary("stop", -1),
  "Shift+ArrowRight": () => detail.moveBoundary("stop", 1),
  "[": () => detail.moveBoundary("start", -1),
  "]": () => detail.moveBoundary("start", 1),
  "/": openFilter,
  Escape: () => list.focus(),
  "g p": focusPatterns,
  ...Object.fromEntries(
    Array.from({ length: 9 }, (_, i) => [
      String(i + 1),
      () => (project.types[i] ? act("relabel", project.types[i]) : say(`There is no label type ${i + 1}.`)),
    ]),
  ),
  0: () => (project.scheme === "plain" ? say("Every token has a label in this data, so O cannot be chosen.") : act("relabel", "O")),
};
