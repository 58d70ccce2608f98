// @ts-check
// How fast pieces arrive: counts for the last twelve seconds, in half seconds.

const SLOT_MS = 500;
const SLOTS = 24;

/** Return {note(), counts(), perSecond(), reset()}. */
export function useRate() {
  let slots = new Array(SLOTS).fill(0);
  let current = 0;
  const turn = () => {
    const now = Math.floor(performance.now() / SLOT_MS);
    const passed = Math.min(SLOTS, now - current);
    if (passed > 0) slots = [...slots.slice(passed), ...new Array(passed).fill(0)];
    current = now;
  };
  return {
    note() {
      turn();
      slots[SLOTS - 1] += 1;
    },
    counts() {
      turn();
      return slots;
    },
    /** Over the three seconds before this half second, which is not over. */
    perSecond() {
      turn();
      return slots.slice(-7, -1).reduce((sum, n) => sum + n, 0) / 3;
    },
    reset() {
      slots.fill(0);
    },
  };
}
