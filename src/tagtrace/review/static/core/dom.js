// Helpers to create elements without HTML: text is only ever set as text.

export const byId = (id) => document.getElementById(id);

const isShown = (child) => child !== null && child !== undefined && child !== false;

/**
 * Create an element. `properties` are event handlers (on...) and attributes; an attribute is left out if its value is
 * null, undefined or false, and is empty if its value is true. `children` may be nested arrays; null, undefined and
 * false are left out.
 */
export function el(tag, properties, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (!isShown(value)) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat(Infinity).filter(isShown));
  return made;
}

/** Replace the children of an element. */
export function fill(parent, ...children) {
  parent.replaceChildren(...children.flat(Infinity).filter(isShown));
}

export const kbd = (key) => el("kbd", {}, key);

/** A function that runs `action` once, `wait` milliseconds after its last call. */
export function later(wait, action) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...values), wait);
  };
}
