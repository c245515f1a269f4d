// Filter forms: their fields are the parameters of the address.

import { later } from "../core/dom.js";
import * as state from "../core/state.js";

/** Follow a form; parameters in `forgotten` lose their meaning when it changes. */
export function bindFilter(form, forgotten = {}) {
  const apply = (field, replace) =>
    state.go(state.view(), { ...forgotten, [field.name]: field.value.trim() }, { replace });
  const typed = later(250, (field) => apply(field, true));
  form.addEventListener("input", (event) => {
    if (event.target.matches("input[name]")) typed(event.target);
  });
  form.addEventListener("change", (event) => {
    if (event.target.matches("select[name]")) apply(event.target, false);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
}

/** Show the address in a form; a field that is being typed into is left alone. */
export function fillFilter(form) {
  for (const field of form.querySelectorAll("[name]")) {
    if (field !== document.activeElement || field.matches("select")) field.value = state.value(field.name);
  }
}
