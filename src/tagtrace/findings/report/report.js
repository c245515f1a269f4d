"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const bar = byId("filter");
  if (!bar) return;
  const [text, change, pattern] = ["filter-text", "filter-change", "filter-pattern"].map(byId);
  const findings = [...document.querySelectorAll(".finding")];
  const words = findings.map((one) => one.textContent.toLowerCase());
  const help = byId("help");
  const shown = () => findings.filter((one) => !one.hidden);

  function apply() {
    const wanted = text.value.trim().toLowerCase();
    findings.forEach((one, number) => {
      one.hidden = !(
        words[number].includes(wanted) &&
        (!change.value || one.dataset.change === change.value) &&
        (!pattern.value || one.dataset.pattern === pattern.value)
      );
    });
    byId("num-shown").textContent = `${shown().length} of ${findings.length} shown`;
  }

  function clear() {
    text.value = change.value = pattern.value = "";
    apply();
  }

  function move(step) {
    const seen = shown();
    const at = seen.indexOf(document.activeElement.closest(".finding"));
    const next = at < 0 ? seen[step > 0 ? 0 : seen.length - 1] : seen[at + step];
    if (next) next.focus();
  }

  function toggle() {
    const one = document.activeElement.closest(".finding, .pattern");
    const details = one && (one.matches("details") ? one : one.querySelector("details"));
    if (details) details.open = !details.open;
  }

  const actions = {
    j: () => move(1),
    k: () => move(-1),
    o: toggle,
    "/": () => text.focus(),
    "?": () => help.showModal(),
    Escape: clear,
  };
  const onFinding = { ArrowDown: actions.j, ArrowUp: actions.k, Enter: toggle };

  document.addEventListener("keydown", (event) => {
    const target = event.target;
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    if (target.matches("input, select")) {
      if (event.key !== "Escape" || target.matches("select")) return;
      event.preventDefault();
      clear();
      move(1);
      return;
    }
    const isLetter = event.key.length === 1;
    if (isLetter && !byId("use-keys").checked) return;
    const action = actions[event.key] || (target.matches(".finding") && onFinding[event.key]);
    if (!action) return;
    event.preventDefault();
    action();
  });

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-only-change], a[data-only-pattern]");
    if (!link) return;
    event.preventDefault();
    text.value = "";
    change.value = link.dataset.onlyChange || "";
    pattern.value = link.dataset.onlyPattern || "";
    apply();
    byId("findings").scrollIntoView();
    const first = shown()[0];
    if (first) first.focus({ preventScroll: true });
  });

  function follow() {
    const target = location.hash.length > 1 && byId(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    if (target.matches("details")) target.open = true;
    if (target.matches(".finding")) {
      if (target.hidden) clear();
      target.focus();
    }
  }

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll(".pattern:not([open])")];
    opened.forEach((one) => (one.open = true));
  });
  addEventListener("afterprint", () => opened.forEach((one) => (one.open = false)));
  addEventListener("hashchange", follow);
  text.addEventListener("input", apply);
  change.addEventListener("change", apply);
  pattern.addEventListener("change", apply);
  byId("clear-filter").addEventListener("click", clear);
  byId("show-help").addEventListener("click", () => help.showModal());
  bar.hidden = false;
  apply();
  follow();
})();
