// The dialog for exporting the corrected data with a log of the changes, and for importing such a log.

import { post } from "../core/api.js";
import { byId, el, fill } from "../core/dom.js";
import { counted } from "../core/format.js";
import { say } from "../core/messages.js";
import { idle } from "../core/outbox.js";

let imported = () => {};

/** `action` runs after a log was imported. */
export function start(action) {
  imported = action;
  byId("export-run").addEventListener("click", run);
  byId("import-file").addEventListener("change", importLog);
}

export function open() {
  fill(byId("export-answer"));
  fill(byId("import-answer"));
  byId("export").showModal();
  byId("export-run").focus();
}

async function run() {
  const place = byId("export-answer");
  fill(place, "Exporting…");
  try {
    await idle();
    const answer = await post("export", {});
    fill(
      place,
      el(
        "p",
        {},
        `${counted(answer.changed, "change")} written${answer.conflicts ? `, ${counted(answer.conflicts, "conflict")} not resolved yet` : ""}:`,
      ),
      answer.unreadable
        ? el("p", { class: "notice" }, `${counted(answer.unreadable, "decision")} could not be read; see the history.`)
        : null,
      el(
        "ul",
        {},
        answer.files.map((file) => el("li", {}, el("code", {}, file))),
      ),
      el(
        "p",
        {},
        el("a", { href: "/api/export/data", download: "" }, "Download the data"),
        " · ",
        el("a", { href: "/api/export/log", download: "" }, "Download the log"),
      ),
    );
    say("The data was exported.");
  } catch (error) {
    fill(place, el("p", { class: "notice" }, `The export failed: ${error.message}`));
  }
}

async function importLog(event) {
  const [file] = event.target.files;
  const place = byId("import-answer");
  if (!file) return;
  fill(place, "Importing…");
  try {
    const answer = await post("import", { log: await file.text() });
    fill(
      place,
      el(
        "p",
        {},
        `${counted(answer.imported, "decision")} imported${answer.skipped ? `, ${counted(answer.skipped, "change")} skipped` : ""}.`,
      ),
      (answer.reasons ?? []).map((reason) => el("p", { class: "soft" }, reason)),
    );
    imported();
  } catch (error) {
    fill(place, el("p", { class: "notice" }, `The import failed: ${error.message}`));
  }
  event.target.value = "";
}
