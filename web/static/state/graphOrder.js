// The order of the units within each level: with few crossings of the lines between them.

const SWEEPS = 12;

/** Number the units of each level by their `at`, in an order that has few crossings. */
export function orderAll(levels) {
  levels.forEach(number);
  let best = levels.map(({ units }) => units);
  let fewest = crossings(levels);
  for (let sweep = 0; sweep < SWEEPS && fewest; sweep += 1) {
    const isDown = sweep % 2 === 0;
    for (const level of isDown ? levels : [...levels].reverse()) sortByMiddle(level, isDown ? "above" : "below");
    const crossed = crossings(levels);
    if (crossed >= fewest) continue;
    fewest = crossed;
    best = levels.map(({ units }) => units);
  }
  levels.forEach((level, i) => {
    level.units = best[i];
    number(level);
  });
}

function number({ units }) {
  units.forEach((unit, i) => { unit.at = i; });
}

function sortByMiddle(level, side) {
  const middle = new Map(level.units.map((unit) => [unit, unit[side].length ? mean(unit[side].map(({ at }) => at)) : unit.at]));
  level.units = [...level.units].sort((a, b) => middle.get(a) - middle.get(b) || a.at - b.at);
  number(level);
}

function crossings(levels) {
  let count = 0;
  for (const { units } of levels) {
    const ends = units.flatMap((unit) => unit.below.map(({ at }) => at).sort((a, b) => a - b));
    for (let i = 0; i < ends.length; i += 1) for (let j = i + 1; j < ends.length; j += 1) count += ends[i] > ends[j] ? 1 : 0;
  }
  return count;
}

/** Return the mean of some numbers. */
export function mean(numbers) {
  return numbers.reduce((sum, each) => sum + each, 0) / numbers.length;
}
