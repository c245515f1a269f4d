// The names under which the page stores values in the browser.

/** Decisions that wait to be sent, so that they survive a reload of the tab. */
export const OUTBOX = "tagtrace-outbox";
/** The reviewer's name, if it is not the server's default. */
export const NAME = "tagtrace-reviewer";
/** Set if single-key shortcuts are switched off. */
export const KEYS_OFF = "tagtrace-keys-off";
