// The few things of a browser that modules without elements use. Import it before them.

import { webcrypto } from "node:crypto";

class Storage {
  #items = new Map();

  getItem = (name) => this.#items.get(name) ?? null;
  setItem = (name, value) => this.#items.set(name, String(value));
  removeItem = (name) => this.#items.delete(name);
}

/** Elements by id, made when they are first asked for. */
const elements = new Map();

export const element = (id) => {
  if (!elements.has(id)) elements.set(id, { id, textContent: "", hidden: true, checked: true, addEventListener() {} });
  return elements.get(id);
};

/** Event listeners by type, of the window and of the document. */
export const listeners = new Map();

const listen = (type, action) => listeners.set(type, [...(listeners.get(type) ?? []), action]);

export const emit = (type, event = {}) => (listeners.get(type) ?? []).forEach((action) => action(event));

/** Set the address of the page, as a reload at that address would. */
export function visit(address) {
  const url = new URL(address, "http://127.0.0.1");
  Object.assign(globalThis.location, { pathname: url.pathname, search: url.search });
}

/** Entries that the page added to the browser's history, as [kind, address]. */
export const entries = [];

const change = (kind) => (_state, _title, address) => {
  entries.push([kind, address]);
  visit(address);
};

/** Requests that were made, and what answers the next ones: functions (address, options) -> Response or an Error to throw. */
export const requests = [];
export const answers = [];

async function fetch(address, options) {
  const body = options.body === undefined ? undefined : JSON.parse(options.body);
  requests.push({ address, body, headers: options.headers });
  const answer = answers.shift();
  if (!answer) throw new Error(`no answer is prepared for ${address}`);
  const found = answer(address, options);
  if (found instanceof Error) throw found;
  return found;
}

/** An answer of this project's server. */
export const text = (content, status = 200) => () => new Response(content, { status, headers: { "X-Tagtrace-Project": "match-reports" } });
export const json = (content, status = 200) => text(JSON.stringify(content), status);
export const lost = () => new TypeError("Failed to fetch");

/** Let everything that is ready to run, run. */
export const settle = async () => {
  for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve));
};

/** Timers that run only when `tick` lets time pass. */
const timers = new Map();
let now = 0;
let lastTimer = 0;

function setTimeout(action, wait = 0) {
  timers.set(++lastTimer, { at: now + wait, action });
  return lastTimer;
}

export function tick(wait) {
  const end = now + wait;
  for (;;) {
    const next = [...timers].filter(([, one]) => one.at <= end).sort(([, one], [, other]) => one.at - other.at)[0];
    if (!next) break;
    timers.delete(next[0]);
    now = next[1].at;
    next[1].action();
  }
  now = end;
}

const stubs = {
  crypto: webcrypto, // not a global before node 20
  document: {
    hidden: false,
    addEventListener: listen,
    getElementById: element,
    querySelector: (selector) => (selector.startsWith("meta") ? { content: selector.includes("csrf") ? "first-token" : "match-reports" } : null),
  },
  addEventListener: listen,
  location: { pathname: "/", search: "" },
  history: { pushState: change("push"), replaceState: change("replace") },
  localStorage: new Storage(),
  sessionStorage: new Storage(),
  fetch,
  setTimeout,
  clearTimeout: (number) => timers.delete(number),
};
for (const [name, value] of Object.entries(stubs)) {
  Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
}
