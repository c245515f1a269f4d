// Who decides: the server's reviewer, or a name that this browser keeps.

import { actAs } from "../core/api.js";
import { byId } from "../core/dom.js";
import { NAME } from "../core/storage_names.js";

const dialog = byId("reviewer");

/** `renamed` runs after another name was chosen. */
export function start(renamed) {
  dialog.addEventListener("close", () => {
    const name = byId("reviewer-input").value.trim();
    if (dialog.returnValue !== "save" || !name) return;
    localStorage.setItem(NAME, name);
    actAs(name);
    renamed();
  });
}

export function ask(name) {
  byId("reviewer-input").value = name;
  dialog.returnValue = "";
  dialog.showModal();
}
