// What-ifs: label probabilities before and after a change of training labels: refined (a close estimate for the head),
// verified (the head retrained) or retrained (the whole tagger).

import { post } from "../core/api.js";
import { byId, el, fill, kbd } from "../core/dom.js";
import { counted, percent, shortNumber } from "../core/format.js";
import { follow } from "../core/jobs.js";
import { spell, typeOf } from "../core/labels.js";
import { say } from "../core/messages.js";
import { project } from "../core/project.js";
import { patterns } from "../parts/patterns.js";
import { bar } from "../parts/text.js";

const UNLIKELY = 0.005;
const RUNGS = { refine: "refined", step: "one Newton step", verify: "verified", retrain: "retrained" };
let places = () => [];
let target = () => ({});
let asked = null;
let answers = {};
let round = 0;
let isTypeChosen = false;
let wanted = () => null;
let tokens = () => [];
let isPrepared = () => true;
/** How long training again takes: seconds, null if it is not possible, undefined if that is not known yet. */
let seconds;

/** `view` provides what the what-if is about; `isPrepared()` is whether the server can answer at once. */
export function start(view) {
  ({ places, target, tokens, wanted, isPrepared } = view);
  byId("what-if-type").addEventListener("change", () => (isTypeChosen = true));
  const panel = byId("what-if-title").closest("section");
  const actions = { remove, relabel, pattern: fixPattern };
  panel.addEventListener("click", (event) => actions[event.target.closest("[data-do]")?.dataset.do]?.());
}

/** Forget the last answer, because another prediction is shown. */
export function clear() {
  round++;
  isTypeChosen = false;
  asked = null;
  answers = {};
  show();
}

/** Whether a what-if was asked for the prediction shown. */
export const isAsked = () => asked !== null;

export function show() {
  const chosen = places();
  const names = chosen
    .slice(0, 3)
    .map((one) => `“${one.tokens.join(" ")}”`)
    .join(", ");
  byId("what-if-edits").textContent = chosen.length
    ? `Selected: ${names}${chosen.length > 3 ? ` and ${chosen.length - 3} more` : ""}. Press m to mark several.`
    : "Select a training segment.";
  const types = [...project.types, ...(project.scheme === "plain" ? [] : ["O"])];
  const select = byId("what-if-type");
  if (select.options.length !== types.length)
    fill(
      select,
      types.map((type) => el("option", {}, type)),
    );
  if (!isTypeChosen && chosen.length) select.value = usualType(chosen);
  const byPattern = byId("what-if-pattern");
  if (byPattern.options.length !== patterns.length)
    fill(
      byPattern,
      patterns.map((one) => el("option", { value: one.number }, `${one.number}: ${one.change.replace("->", "→")}`)),
    );
  byId("what-if-by-pattern").hidden = !patterns.length;
  draw();
}

/** The type to suggest: the gold type of the prediction, or another one if the first segment already has it. */
function usualType(chosen) {
  const own = typeOf(chosen[0].labels[0], project.scheme) ?? "O";
  const gold = wanted() ?? "O";
  return gold === own ? (project.types.find((type) => type !== own) ?? own) : gold;
}

const edit = (one, labels) => ({ sentence_number: one.sentence_number, start: one.start, stop: one.stop, labels });

export const remove = () =>
  ask(
    "the label is removed",
    places().map((one) => edit(one, null)),
  );

export function relabel() {
  const type = byId("what-if-type").value;
  ask(
    `the label is changed to ${type}`,
    places().map((one) => edit(one, spell(type, one.stop - one.start, project.scheme))),
  );
}

function fixPattern() {
  const number = Number(byId("what-if-pattern").value);
  ask(`pattern ${number} is fixed`, [], number);
}

async function ask(title, edits, pattern = null) {
  if (!edits.length && pattern === null) {
    say("Select a training segment first.");
    return;
  }
  const own = ++round;
  asked = { title, body: { ...target(), edits, pattern }, state: "Predicting…" };
  answers = {};
  draw();
  try {
    if (!isPrepared()) await work({ kind: "prepare", what_if: true }, "Computing the curvature…", own);
    if (own !== round) return;
    asked.state = "Predicting…";
    const answer = await post("what-if", asked.body);
    if (own !== round) return;
    answers[answer.rung === "verify" ? "verified" : "predicted"] = answer;
    asked.state = "";
    expect();
    const loss = `loss ${shortNumber(answer.loss_before)} → ${shortNumber(answer.loss_after)}`;
    say(`What if ${title} (${counted(answer.edits, "edit")}): ${loss}, ${RUNGS[answer.rung] ?? answer.rung}.`);
  } catch (error) {
    if (own !== round) return;
    asked.state = error.message;
    say(`The what-if failed: ${error.message}`);
  }
  draw();
}

/** Verify the last what-if by retraining, and show the progress. */
export async function verify() {
  if (!asked || answers.verified || asked.isTraining) {
    say(!asked ? "Run a what-if first." : answers.verified ? "This what-if is already verified." : "Please wait.");
    return;
  }
  const own = round;
  try {
    const result = await work({ kind: "verify", ...asked.body }, "Retraining…", own);
    if (own !== round) return;
    answers.verified = result;
    asked.state = "";
    say(
      `Verified by retraining: loss ${shortNumber(answers.verified.loss_before)} → ${shortNumber(answers.verified.loss_after)}.`,
    );
  } catch (error) {
    if (own !== round) return;
    asked.state = `Retraining failed: ${error.message}`;
    say(asked.state);
  }
  draw();
}

/** Ask once how long training again takes. */
async function expect() {
  if (seconds !== undefined) return;
  try {
    seconds = (await follow({ kind: "expect" }, () => {}, () => true)).seconds;
  } catch {
    return; // the button then shows no time
  }
  draw();
}

/** Train the whole tagger again with the edits of the last what-if and without, and show the progress. */
export async function retrain() {
  if (!asked || answers.again || asked.isTraining) {
    say(!asked ? "Run a what-if first." : answers.again ? "This was already done." : "Please wait.");
    return;
  }
  const own = round;
  try {
    const result = await work({ kind: "retrain", ...asked.body }, "Training the whole tagger again…", own);
    if (own !== round) return;
    answers.again = result;
    asked.state = "";
    say(`The whole tagger retrained: ${summary(result)}`);
  } catch (error) {
    if (own !== round) return;
    asked.state = `Training again failed: ${error.message}`;
    say(asked.state);
  }
  draw();
}

function summary(answer) {
  const flips = `the prediction changes in ${answer.num_flips} of ${counted(answer.num_seeds, "seed")}`;
  const within = answer.interval ? ` (95 % interval ${answer.interval.map(signed).join(" to ")})` : "";
  return `${flips}; mean change of the loss ${signed(answer.loss_after - answer.loss_before)}${within}.`;
}

const duration = (count) => (count < 90 ? `${Math.ceil(count)} s` : `${Math.ceil(count / 60)} min`);

/** Run a job and show its progress until another what-if is asked. */
async function work(body, name, own) {
  Object.assign(asked, { state: name, isWorking: true, isTraining: body.kind !== "prepare", progress: null });
  draw();
  try {
    return await follow(
      body,
      (progress) => {
        asked.progress = progress;
        draw();
      },
      () => own === round,
    );
  } finally {
    if (own === round) asked.isWorking = asked.isTraining = false;
  }
}

function draw() {
  const place = byId("what-if-answer");
  if (!asked) {
    fill(place);
    return;
  }
  const any = answers.predicted ?? answers.verified;
  const progress =
    asked.isWorking
      ? el("progress", {
          "aria-label": asked.state,
          ...(asked.progress ? { max: asked.progress[1], value: asked.progress[0] } : {}),
        })
      : null;
  const hadFocus = place.contains(document.activeElement);
  const verifyButton =
    any && !answers.verified && !progress
      ? el("button", { type: "button", onclick: verify }, "Verify by retraining the head ", kbd("v"))
      : null;
  const retrainButton =
    any && !answers.again && !progress && seconds !== null
      ? el(
          "button",
          { type: "button", onclick: retrain },
          `Train the whole tagger again${seconds ? `, about ${duration(seconds)}` : ""} `,
          kbd("w"),
        )
      : null;
  fill(
    place,
    el("h4", {}, `If ${asked.title}`, any ? ` (${counted(any.edits, "edit")})` : ""),
    any ? table([answers.predicted, answers.verified].filter(Boolean), "Probabilities before and after") : null,
    answers.again
      ? [
          el("h4", {}, `The whole tagger retrained, mean of ${counted(answers.again.num_seeds, "seed")}`),
          table([answers.again], "Probabilities before and after training again"),
          el("p", {}, `In these trainings, ${summary(answers.again)}`),
        ]
      : null,
    asked.state ? el("p", { class: "row" }, progress, asked.state) : null,
    el("p", { class: "row" }, verifyButton, retrainButton),
  );
  if (hadFocus) (verifyButton ?? retrainButton)?.focus();
}

function table(found, caption) {
  const columns = found.map((answer) => [RUNGS[answer.rung] ?? answer.rung, answer]);
  const first = columns[0][1];
  const find = (list, one) => list.find((other) => other.token === one.token && other.label === one.label)?.p;
  const words = tokens();
  const cell = (p) => el("td", {}, p === undefined ? "–" : bar(p, 1, percent(p)));
  const rows = merged(columns.map(([, answer]) => answer)).map((one) =>
    el(
      "tr",
      {},
      el(
        "th",
        { scope: "row" },
        el("bdi", { class: "word" }, words[one.token] ?? `token ${one.token}`),
        " ",
        el("code", {}, one.label),
      ),
      cell(find(first.before.p, one)),
      columns.map(([, answer]) => cell(find(answer.after.p, one))),
    ),
  );
  const losses = el(
    "tr",
    {},
    el("th", { scope: "row" }, "loss"),
    el("td", {}, shortNumber(first.loss_before)),
    columns.map(([, answer]) =>
      el(
        "td",
        {},
        shortNumber(answer.loss_after),
        el("span", { class: "soft" }, ` (${signed(answer.loss_after - answer.loss_before)})`),
      ),
    ),
  );
  return el(
    "table",
    { class: "plain" },
    el("caption", { class: "unseen" }, caption),
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        el("th", { scope: "col" }, "label"),
        el("th", { scope: "col" }, "before"),
        columns.map(([name]) => el("th", { scope: "col" }, name)),
      ),
    ),
    el("tbody", {}, rows, losses),
  );
}

const signed = (change) => `${change >= 0 ? "+" : ""}${shortNumber(Number(change.toPrecision(3)))}`;

/** The tokens and labels that are likely before or after the change, by token. */
function merged(found) {
  const all = new Map();
  for (const answer of found)
    for (const one of [...answer.before.p, ...answer.after.p])
      if (one.p >= UNLIKELY) all.set(`${one.token} ${one.label}`, one);
  return [...all.values()].sort((one, other) => one.token - other.token);
}
