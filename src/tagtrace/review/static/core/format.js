// Numbers and times as the page shows them.

export const counted = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

/** A number with four significant digits, a real minus sign, and an exponent only where it is needed. */
export function shortNumber(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  const text =
    size !== 0 && (size < 0.001 || size >= 1e6) ? value.toExponential(2) : String(Number(value.toPrecision(4)));
  return text.replaceAll("-", "\u2212");
}

export const percent = (value) => (value > 0 && value < 0.001 ? "<0.1 %" : `${(100 * value).toFixed(1)} %`);

/** A time from the server (ISO format or seconds) in the reader's time zone; without the date if it is today. */
export function clock(time) {
  const date = new Date(typeof time === "number" ? time * 1000 : time);
  if (Number.isNaN(date.getTime())) return String(time ?? "");
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday
    ? date.toLocaleTimeString("en-GB")
    : `${date.toLocaleDateString("en-CA")} ${date.toLocaleTimeString("en-GB")}`;
}
