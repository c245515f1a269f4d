// The dialog for writing a note.

import { byId } from "../core/dom.js";

const dialog = byId("note");
let saved = () => {};

export function askNote(about, text, action) {
  byId("note-about").textContent = about;
  byId("note-text").value = text;
  saved = action;
  dialog.returnValue = "";
  dialog.showModal();
  byId("note-text").focus();
}

byId("note-text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) dialog.close("save");
});
dialog.addEventListener("close", () => {
  if (dialog.returnValue === "save") saved(byId("note-text").value.trim());
});
