// Elements, made without markup: text is only ever set as text.

export const byId = (id) => document.getElementById(id);

/** An element. Properties: class, on* handlers, and attributes (false or null: left out, true: empty). */
export function el(tag, properties, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

/** Fill an element anew. */
export function fill(parent, ...children) {
  parent.replaceChildren(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
}

export const kbd = (key) => el("kbd", {}, key);

/** Run `action` once, `wait` milliseconds after the last call. */
export function later(wait, action) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...values), wait);
  };
}

export const counted = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

/** A score with four significant digits, a real minus sign, and no needless exponent. */
export function shortNumber(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  const text =
    size !== 0 && (size < 0.001 || size >= 1e6) ? value.toExponential(2) : String(Number(value.toPrecision(4)));
  return text.replace("-", "\u2212");
}

export const percent = (value) => (value > 0 && value < 0.001 ? "<0.1 %" : `${(100 * value).toFixed(1)} %`);

/** A time from the server (ISO or seconds) as the reader's clock shows it. */
export function clock(time) {
  const date = new Date(typeof time === "number" ? time * 1000 : time);
  if (Number.isNaN(date.getTime())) return String(time ?? "");
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday
    ? date.toLocaleTimeString("en-GB")
    : `${date.toLocaleDateString("en-CA")} ${date.toLocaleTimeString("en-GB")}`;
}
