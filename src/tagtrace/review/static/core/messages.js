// Messages: a status line at the bottom, which screen readers read out, and a banner for problems.

import { byId } from "./dom.js";

let absence = "";
let problem = "";

export function say(line) {
  const place = byId("message");
  place.textContent = place.textContent === line ? `${line}\u00a0` : line; // so that a repeated line is read out again
}

/** Show why the server of this project does not answer; "" if it does. Returns true if it does again. */
export function setAbsence(line) {
  const isBack = !line && absence !== "";
  absence = line;
  show();
  return isBack;
}

export function setProblem(line) {
  problem = line;
  show();
}

function show() {
  const banner = byId("banner");
  const line = absence || problem;
  if (banner.textContent !== line) banner.textContent = line;
  banner.hidden = !line;
}

/** Show how many decisions wait to be saved, if there are several. A single one is usually saved at once. */
export function showWaiting(number) {
  byId("pending").textContent = number > 1 ? `${number} decisions are waiting to be saved` : "";
}
