// Filter forms, whose fields are parameters of the address.

import { later } from "../core/dom.js";
import * as state from "../core/state.js";

/** Update the address when a form changes. The parameters in `forgotten` are then reset. */
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

/** Show the parameters of the address in a form, except in the field that the reader is typing in. */
export function fillFilter(form) {
  for (const field of form.querySelectorAll("[name]")) {
    if (field !== document.activeElement || field.matches("select")) field.value = state.value(field.name);
  }
}
