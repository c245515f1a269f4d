// The state of the page is its address. The path names the view; the query string holds the parameters of all views.

export const VIEWS = ["errors", "why", "findings"];
export const DEFAULTS = {
  sort: "loss",
  status: "open",
  order: "taught",
  target: "predicted",
  score: "relative",
  curvature: "auto",
  kind: "token",
  top: "20",
};

const OWN = {
  errors: ["pair", "text", "document", "min_loss", "sort"],
  why: ["sentence", "data", "start", "stop", "target", "score", "curvature", "kind", "top"],
  findings: ["pattern", "change", "status", "text", "document", "order"],
};
const SENT = { order: "sort" }; // the server has one name for what the errors and the findings are sorted by
const ASIDE = ["at", "rank"];
const KNOWN = new Set([...Object.values(OWN).flat(), ...ASIDE]);

let state = read();
let listener = () => {};
let timer = 0;

function read() {
  const parameters = {};
  for (const [name, value] of new URLSearchParams(location.search)) if (KNOWN.has(name)) parameters[name] = value;
  const view = location.pathname.split("/")[1];
  return { view: VIEWS.includes(view) ? view : "", parameters };
}

/** Change the default values of parameters. Defaults are left out of the address. */
export const setDefaults = (values) => Object.assign(DEFAULTS, values);

export const view = () => state.view;
export const value = (name) => state.parameters[name] ?? DEFAULTS[name] ?? "";

/** The parameters that a view sends to the server: its own ones that have a value. */
export function query(of = state.view) {
  const found = {};
  for (const name of OWN[of] ?? []) if (value(name) !== "") found[SENT[name] ?? name] = value(name);
  return found;
}

/** The address of a view with some parameters changed; "" or null removes a parameter. */
export function address(of = state.view, changes = {}) {
  const parameters = new URLSearchParams();
  for (const [name, text] of Object.entries({ ...state.parameters, ...changes })) {
    if (text !== null && text !== undefined && text !== "" && String(text) !== DEFAULTS[name])
      parameters.set(name, text);
  }
  const written = parameters.toString();
  return `/${of}${written ? `?${written}` : ""}`;
}

/** Go to a view. This adds an entry to the browser's history unless `replace` is true. */
export function go(of, changes = {}, { replace = false } = {}) {
  flush();
  const next = address(of, changes);
  if (next !== location.pathname + location.search) history[replace ? "replaceState" : "pushState"](null, "", next);
  state = read();
  listener();
}

/** Change parameters without redrawing. The address is updated a moment later, because browsers limit how often it may change. */
export function remember(changes) {
  for (const [name, text] of Object.entries(changes)) {
    if (text === null || text === "") delete state.parameters[name];
    else state.parameters[name] = String(text);
  }
  clearTimeout(timer);
  timer = setTimeout(flush, 200);
}

function flush() {
  clearTimeout(timer);
  const next = address();
  if (state.view && next !== location.pathname + location.search) history.replaceState(null, "", next);
}

export function follow(action) {
  listener = action;
  addEventListener("popstate", () => {
    clearTimeout(timer);
    state = read();
    listener();
  });
  addEventListener("pagehide", flush);
}
