// What this browser keeps, by name.

/** Decisions on their way, for a reload of this tab. */
export const OUTBOX = "tagtrace-outbox";
/** Who decides here, where it is not the server's reviewer. */
export const NAME = "tagtrace-reviewer";
/** Whether single keys are off. */
export const KEYS_OFF = "tagtrace-keys-off";
