// The state of the page is its address: the view is the path, everything else the query string, and all views share it.

export const VIEWS = ["errors", "why", "findings"];
export const DEFAULTS = {
  sort: "loss",
  status: "open",
  target: "predicted",
  score: "relative",
  curvature: "auto",
  kind: "token",
  top: "20",
};

const OWN = {
  errors: ["pair", "text", "document", "min_loss", "sort"],
  why: ["sentence", "data", "start", "stop", "target", "score", "curvature", "kind", "top"],
  findings: ["pattern", "change", "status", "text", "document"],
};
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

/** Other values for parameters that are not set; they too stay out of the address. */
export const setDefaults = (values) => Object.assign(DEFAULTS, values);

export const view = () => state.view;
export const value = (name) => state.parameters[name] ?? DEFAULTS[name] ?? "";

/** What a view asks the server for: its own parameters, those that are set. */
export function query(of = state.view) {
  const found = {};
  for (const name of OWN[of] ?? []) if (value(name) !== "") found[name] = value(name);
  return found;
}

/** The address of a view after some parameters are changed ("" or null takes one away). */
export function address(of = state.view, changes = {}) {
  const parameters = new URLSearchParams();
  for (const [name, text] of Object.entries({ ...state.parameters, ...changes })) {
    if (text !== null && text !== undefined && text !== "" && String(text) !== DEFAULTS[name])
      parameters.set(name, text);
  }
  const written = parameters.toString();
  return `/${of}${written ? `?${written}` : ""}`;
}

/** Go somewhere: a new entry in the browser's history unless `replace`. */
export function go(of, changes = {}, { replace = false } = {}) {
  flush();
  const next = address(of, changes);
  if (next !== location.pathname + location.search) history[replace ? "replaceState" : "pushState"](null, "", next);
  state = read();
  listener();
}

/** Remember without showing anything anew; the address follows a moment later, since browsers limit how often it may change. */
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
