// The list of patterns. Each one is a link to its findings.

import { get } from "../core/api.js";
import { byId, el, fill } from "../core/dom.js";
import { counted, percent, shortNumber } from "../core/format.js";
import { say } from "../core/messages.js";
import { project } from "../core/project.js";
import * as state from "../core/state.js";

export let patterns = [];

export async function load() {
  if (project.has.findings === false) return;
  try {
    patterns = (await get("patterns")).items;
  } catch (error) {
    say(`The patterns could not be loaded: ${error.message}`);
  }
  show();
}

export function show() {
  const all = el(
    "li",
    {},
    link(
      "",
      el("strong", {}, "All findings"),
      el("span", { class: "soft" }, ` ${(project.counts.findings ?? 0).toLocaleString("en")}`),
    ),
  );
  fill(
    byId("patterns"),
    all,
    patterns.map((one) => el("li", {}, link(one.number, ...described(one)))),
  );
  fill(
    byId("changes"),
    [...new Set(patterns.map((one) => one.change))].map((change) => el("option", { value: change })),
  );
}

function link(number, ...children) {
  const isChosen = state.value("pattern") === String(number);
  return el(
    "a",
    {
      href: state.address("findings", { pattern: number, rank: "" }),
      "data-pattern": number,
      "aria-current": isChosen ? "true" : null,
    },
    ...children,
  );
}

function described(one) {
  const progress = one.progress ?? {};
  const num = (progress.open ?? 0) + (progress.accepted ?? 0) + (progress.rejected ?? 0) + (progress.skipped ?? 0);
  const decided = num - (progress.open ?? 0);
  return [
    el(
      "span",
      { class: "pattern-head" },
      el("strong", {}, `${one.number}. ${one.change.replace("->", "→")}`),
      el("span", { class: "soft" }, `${decided} of ${num} decided`),
    ),
    el("span", { class: "pattern-text" }, one.description),
    el(
      "span",
      { class: "soft" },
      `${counted(one.segments, "segment")}, ${counted(one.documents, "document")}, confidence ${percent(one.confidence)}`,
      effect(one.effect),
    ),
  ];
}

/** The effect of fixing a pattern on trusted data that its proposals were not learned from. */
function effect(found) {
  if (!found) return null;
  const after = found.verified ?? found.predicted;
  const how = found.verified ? "verified" : "one Newton step";
  const loss = `loss ${shortNumber(found.before.loss)} → ${shortNumber(after.loss)}`;
  const [low, high] = found.loss_interval ?? [];
  const change = found.loss_interval ? `, change ${shortNumber(low)} to ${shortNumber(high)}` : "";
  const wrong = `wrong tokens ${found.before.num_wrong} → ${after.num_wrong}`;
  return `. If it is fixed, trusted data: ${loss}${change}, ${wrong} (${how}): ${found.verdict}.`;
}
