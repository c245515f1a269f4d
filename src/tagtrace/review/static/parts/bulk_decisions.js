// Decisions on many segments at once, which the reviewer checks in a preview first.

import { get } from "../core/api.js";
import { decideAll } from "../core/decisions.js";
import { el } from "../core/dom.js";
import { counted } from "../core/format.js";
import { say } from "../core/messages.js";
import { newKey } from "../core/outbox.js";
import * as state from "../core/state.js";
import { preview } from "./preview_dialog.js";

const FIRST = 30;
const PART = 1000;
const MOST = 19_000; // the server accepts up to 20,000 decisions in one request

/** Apply the change of a finding to all segments with the same tokens and labels. `loadSentence` loads the finding's sentence. */
export async function applyToAll(one, change, loadSentence) {
  try {
    const isOwn = change.start === one.start && change.stop === one.stop;
    if (!isOwn && !one.sentence_tokens) await loadSentence(one);
    const own = isOwn ? one : { ...one, ...cut(one, change), given: one.sentence_labels.slice(change.start, change.stop) };
    const asked = { rank: one.rank, start: change.start, stop: change.stop };
    const asRow = (place) => ({
      ...place,
      proposed: change.labels,
      status: place.decision?.status,
      action: place.rank === one.rank ? change.action : "relabel",
      isTicked: Boolean(place.is_alike) && !place.decision,
    });
    const { answer, rest } = await inParts("occurrences", asked, asRow);
    const words = (some) => el("bdi", {}, some.join(" "));
    const text = ["“", words(own.tokens), "”"];
    const only = answer.total > MOST ? ` Only the first ${MOST.toLocaleString("en")} are used.` : "";
    const alike = answer.alike
      ? `this finding and ${counted(answer.alike, "other open finding")} with the same change`
      : "only this finding, because no other open finding proposes the same change";
    preview(
      {
        title: "Apply to all occurrences",
        about: answer.total
          ? [
              [text, ` has ${counted(answer.total, "other occurrence")} with the labels `, words(own.given), `.${only} `],
              ["Selected occurrences get the labels ", words(change.labels), ". "],
              `Selected at first (${(answer.alike + 1).toLocaleString("en")}): ${alike}. `,
              "The given labels may be right elsewhere, so check an occurrence before you select it.",
            ]
          : [text, " with the labels ", words(own.given), " does not occur anywhere else in the training data."],
        rows: [{ ...own, labels: own.given, proposed: change.labels, status: "open", action: change.action }, ...answer.rows],
        rest,
        noun: "occurrence",
        verb: "Apply",
      },
      bulk,
    );
  } catch (error) {
    say(`The occurrences could not be loaded: ${error.message}`);
  }
}

/** Tokens start:stop of a finding's sentence, and a few tokens before and after them. */
function cut({ sentence_tokens: tokens }, { start, stop }) {
  const before = tokens.slice(Math.max(0, start - 8), start);
  return { start, stop, before, tokens: tokens.slice(start, stop), after: tokens.slice(stop, stop + 8) };
}

/** Accept all open findings of the selected pattern. */
export async function acceptPattern() {
  const number = state.value("pattern");
  try {
    const asRow = (one) => ({ ...one, labels: one.given, action: "accept" });
    const { answer, rest } = await inParts("findings", { pattern: number, status: "open" }, asRow);
    if (!answer.total) {
      say("This pattern has no open findings.");
      return;
    }
    preview(
      {
        title: `Accept all open findings of pattern ${number}`,
        about: "The selected findings get their proposed labels.",
        rows: answer.rows,
        rest,
        noun: "finding",
        verb: "Accept",
      },
      bulk,
    );
  } catch (error) {
    say(`Pattern ${number} could not be loaded: ${error.message}`);
  }
}

/** The first items of a list as rows, and a function that loads the others while `isWanted()` is true. */
async function inParts(path, query, asRow) {
  const answer = await get(path, { ...query, offset: 0, limit: FIRST });
  const total = Math.min(answer.total ?? answer.items.length, MOST);
  const rows = answer.items.map(asRow);
  const number = total - rows.length;
  const ticked = answer.alike == null ? number : Math.min(number, answer.alike - rows.filter((one) => one.isTicked).length);
  const load = async (isWanted) => {
    const others = [];
    while (isWanted() && rows.length + others.length < total) {
      const found = await get(path, { ...query, offset: rows.length + others.length, limit: PART });
      if (!found.items.length) break;
      others.push(...found.items.map(asRow));
    }
    return others;
  };
  return {
    answer: { total: answer.total ?? answer.items.length, alike: answer.alike ?? 0, rows },
    rest: number > 0 ? { number, ticked, load } : null,
  };
}

function bulk(places) {
  const decisions = places.map((one) => ({
    rank: one.rank ?? null,
    sentence_number: one.sentence_number,
    start: one.start,
    stop: one.stop,
    action: one.action,
    labels: one.proposed,
    note: "",
    base: one.base ?? null,
    key: newKey(),
  }));
  say(`Saving ${counted(decisions.length, "decision")}…`);
  decideAll(decisions, () => say(`${counted(decisions.length, "decision")} saved. Undo reverts them together.`));
}
