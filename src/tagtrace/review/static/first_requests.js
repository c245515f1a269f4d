// Sends the first requests while the other modules are still loading.

import { actAs, begin } from "./core/api.js";
import { SIZE } from "./core/paged_list.js";
import * as state from "./core/state.js";
import { NAME, OUTBOX } from "./core/storage_names.js";

/** Request what the view needs first, unless decisions that would change the answer still wait to be sent. */
function requestFirstPage() {
  if (JSON.parse(sessionStorage.getItem(OUTBOX) ?? "[]").length) return;
  const rank = Number(state.value("rank"));
  const page = { offset: 0, limit: SIZE };
  if (state.view() === "errors") begin("errors", { ...state.query("errors"), ...page });
  if (["findings", ""].includes(state.view()))
    begin("findings", { ...state.query("findings"), ...page, ...(rank ? { rank } : {}) });
}

actAs(localStorage.getItem(NAME));
begin("project");
requestFirstPage();
