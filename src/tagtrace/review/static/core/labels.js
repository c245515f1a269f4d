// Labels of tokens and the segments that they form. The schemes are iob2, io and plain, as normalised by the server.

const PREFIX = /^[BI]-/;

/** The type of a label, or null if the label is outside of segments. */
export function typeOf(label, scheme) {
  if (scheme === "plain") return label;
  if (label === "O" || !label) return null;
  return scheme === "iob2" ? label.replace(PREFIX, "") : label;
}

/** The segments of a sentence: [{start, stop, type}]. */
export function segmentsOf(labels, scheme) {
  const found = [];
  labels.forEach((label, t) => {
    const type = typeOf(label, scheme);
    const last = found.at(-1);
    const goesOn =
      last &&
      last.stop === t &&
      last.type === type &&
      scheme !== "plain" &&
      !(scheme === "iob2" && label.startsWith("B-"));
    if (goesOn) last.stop = t + 1;
    else if (type !== null) found.push({ start: t, stop: t + 1, type });
  });
  return found;
}

/** The segments of a sentence, and each token outside of them, in order: [{start, stop, type}], where O is a type too. */
export function unitsOf(labels, scheme) {
  const found = segmentsOf(labels, scheme);
  const inside = new Set(found.flatMap(({ start, stop }) => Array.from({ length: stop - start }, (_, t) => start + t)));
  const outside = labels.flatMap((_, t) => (inside.has(t) ? [] : [{ start: t, stop: t + 1, type: "O" }]));
  return [...found, ...outside].sort((one, other) => one.start - other.start);
}

/** The types of the segments, in order: "ORG+LOC", or "O" if there are no segments. */
export function spelled(labels, scheme) {
  return [...new Set(segmentsOf(labels, scheme).map((one) => one.type))].join("+") || "O";
}

/** The labels of one segment of a type with `length` tokens. */
export function spell(type, length, scheme) {
  if (type === "O" || scheme !== "iob2") return Array(length).fill(type);
  return Array.from({ length }, (_, t) => `${t ? "I" : "B"}-${type}`);
}

export const isSame = (one, other) => one.length === other.length && one.every((label, t) => label === other[t]);
