// What the reader is told: a line at the foot (read out by screen readers) and a banner when something is wrong.

import { byId } from "./dom.js";

let isGone = false;
let problem = "";

export function say(line) {
  const place = byId("message");
  place.textContent = place.textContent === line ? `${line}\u00a0` : line; // a line that repeats is read out again
}

/** Whether the server answers; returns true when it is back. */
export function serverIsThere(isThere) {
  const isBack = isThere && isGone;
  isGone = !isThere;
  show();
  return isBack;
}

export function setProblem(line) {
  problem = line;
  show();
}

function show() {
  const banner = byId("banner");
  const line = isGone
    ? "The server does not answer. Start tagtrace review again: decisions made meanwhile wait here and are then sent."
    : problem;
  if (banner.textContent !== line) banner.textContent = line;
  banner.hidden = !line;
}

/** Show how many decisions wait to be sent; a single one is sent too soon to be worth a line. */
export function showWaiting(number) {
  byId("pending").textContent = number > 1 ? `${number} on their way` : "";
}
