// Words and numbers as the templates write them.

export const decimals = (number) => number === null ? "–" : number.toFixed(3);
export const count = (number, one, many) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

export const percentage = (share) => share < 0.01 ? "less than 1 %" : share > 0.99 ? "more than 99 %" : `${Math.round(100 * share)} %`;

export const sentence = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);

// Searching "sjogren" finds Sjögren.
export const fold = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
