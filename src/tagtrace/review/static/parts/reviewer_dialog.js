// The dialog for the reviewer's name, which is stored in the browser. The default is the server's reviewer.

import { actAs } from "../core/api.js";
import { byId } from "../core/dom.js";
import { NAME } from "../core/storage_names.js";

const dialog = byId("reviewer");

/** `renamed` runs after the name was changed. */
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
