// Numbers as text. Times are picoseconds.
const TIMES = [[1e12, "s"], [1e9, "ms"], [1e6, "µs"], [1e3, "ns"], [1, "ps"]];
const BYTES = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]];

function scaled(value, units, digits) {
  const [size, unit] = units.find(([least]) => Math.abs(value) >= least) ?? units.at(-1);
  const number = value / size;
  return `${Number.isInteger(number) ? number : number.toFixed(digits)}\u00a0${unit}`;
}

export const timeText = (ps, digits = 3) => scaled(ps, TIMES, digits);
export const bytesText = (bytes) => scaled(bytes, BYTES, 1);
export const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)}\u00a0%`;
export const count = (number) => (number === null ? "?" : number.toLocaleString("en")); // not counted
