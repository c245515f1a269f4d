// Decisions about many places at once, each of which can be seen in a preview before.

import { get } from "../core/api.js";
import { decideAll } from "../core/decisions.js";
import { counted } from "../core/format.js";
import { say } from "../core/messages.js";
import { newKey } from "../core/outbox.js";
import * as state from "../core/state.js";
import { preview } from "./preview_dialog.js";

const FIRST = 30;
const PART = 1000;
const MOST = 19_000; // the server takes 20,000 decisions together

/** Make a change of a finding at all places with its tokens and labels; `read` completes the finding's sentence. */
export async function applyToAll(one, change, read) {
  try {
    const isOwn = change.start === one.start && change.stop === one.stop;
    if (!isOwn && !one.sentence_tokens) await read(one);
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
    const [text, given] = [own.tokens.join(" "), own.given.join(" ")];
    const only = answer.total > MOST ? ` Only the first ${MOST.toLocaleString("en")} are taken.` : "";
    const alike = answer.alike
      ? `this finding and ${answer.alike === 1 ? "the one other" : `the ${answer.alike.toLocaleString("en")} others`} that are open findings of the same change`
      : "only this finding: no other place is an open finding of the same change";
    preview(
      {
        title: "Apply to all occurrences",
        about: answer.total
          ? `“${text}” has the labels ${given} at ${counted(answer.total, "other place")} too.${only} Ticked places get ${change.labels.join(" ")}. Ticked at first (${(answer.alike + 1).toLocaleString("en")}): ${alike}. Elsewhere the label may be right: look before you tick.`
          : `“${text}” with the labels ${given} is nowhere else in the training data.`,
        rows: [{ ...own, labels: own.given, proposed: change.labels, status: "open", action: change.action }, ...answer.rows],
        rest,
        verb: "Apply",
      },
      bulk,
    );
  } catch (error) {
    say(`Occurrences: ${error.message}`);
  }
}

/** Tokens start:stop of a finding's sentence and some around them. */
function cut({ sentence_tokens: tokens }, { start, stop }) {
  const before = tokens.slice(Math.max(0, start - 8), start);
  return { start, stop, before, tokens: tokens.slice(start, stop), after: tokens.slice(stop, stop + 8) };
}

/** Accept what is open in the chosen pattern. */
export async function acceptPattern() {
  const number = state.value("pattern");
  try {
    const asRow = (one) => ({ ...one, labels: one.given, action: "accept" });
    const { answer, rest } = await inParts("findings", { pattern: number, status: "open" }, asRow);
    if (!answer.total) {
      say("Nothing is open in this pattern.");
      return;
    }
    preview(
      {
        title: `Accept all open findings of pattern ${number}`,
        about: "Ticked findings get the labels proposed.",
        rows: answer.rows,
        rest,
        verb: "Accept",
      },
      bulk,
    );
  } catch (error) {
    say(`Pattern ${number}: ${error.message}`);
  }
}

/** The first items of a list as rows, and how to read the others; that stops once nobody wants them. */
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
  say(`Deciding about ${counted(decisions.length, "place")}…`);
  decideAll(decisions, () => say(`${counted(decisions.length, "decision")} made. Undo takes them back together.`));
}
