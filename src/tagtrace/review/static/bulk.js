// Decisions about many places at once, each seen in a preview before.

import { get, itemsOf } from "./api.js";
import { decideAll } from "./decide.js";
import { counted } from "./dom.js";
import { say } from "./messages.js";
import { newKey } from "./outbox.js";
import { preview } from "./preview.js";
import * as state from "./state.js";

/** Make a change of a finding at all places with its tokens and labels. */
export async function applyToAll(one, change) {
  if (change.start !== one.start || change.stop !== one.stop) {
    say("Only a change within the finding's own tokens can be made at all occurrences.");
    return;
  }
  try {
    const answer = await get("occurrences", { rank: one.rank });
    const found = itemsOf(answer);
    const rows = found.map((place) => ({ ...place, proposed: change.labels, status: place.decision?.status }));
    const own = { ...one, labels: one.given, proposed: change.labels, isFinding: true };
    preview(
      {
        title: "Apply to all occurrences",
        about: found.length
          ? `“${one.tokens.join(" ")}” has the labels ${one.given.join(" ")} at ${counted(answer.total ?? found.length, "other place")} too${(answer.total ?? 0) > found.length ? `; the first ${found.length} are listed` : ""}. Ticked places get ${change.labels.join(" ")}; those already decided are not ticked.`
          : `“${one.tokens.join(" ")}” with the labels ${one.given.join(" ")} is nowhere else in the training data.`,
        rows: [{ ...own, status: "open" }, ...rows],
        verb: "Apply",
      },
      (chosenRows) =>
        bulk(chosenRows.map((place) => ({ ...place, action: place.isFinding ? change.action : "relabel" }))),
    );
  } catch (error) {
    say(`Occurrences: ${error.message}`);
  }
}

/** Accept what is open in the chosen pattern. */
export async function acceptPattern() {
  const number = state.value("pattern");
  try {
    const found = [];
    for (let total = 1; found.length < total;) {
      const answer = await get("findings", { pattern: number, status: "open", offset: found.length, limit: 100 });
      total = answer.items.length ? answer.total : 0;
      found.push(...answer.items);
    }
    if (!found.length) {
      say("Nothing is open in this pattern.");
      return;
    }
    const rows = found.map((one) => ({ ...one, labels: one.given, action: "accept" }));
    preview(
      {
        title: `Accept all open findings of pattern ${number}`,
        about: "Ticked findings get the labels proposed.",
        rows,
        verb: "Accept",
      },
      bulk,
    );
  } catch (error) {
    say(`Pattern ${number}: ${error.message}`);
  }
}

function bulk(places) {
  const decisions = places.map((one) => ({
    rank: one.rank ?? null,
    chain: one.chain,
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
