// SPDX-License-Identifier: Apache-2.0
// What every canvas of the page needs: sharp pixels, and the colours of the style sheet.

/** Returns a context that draws in CSS pixels, cleared, with its size. */
export function prepare(canvas, height = canvas.clientHeight) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = "12px system-ui, sans-serif";
  return { context, width, height };
}

let colours = null;
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { colours = null; });

/** Returns a colour of the style sheet by its name. */
export function colour(name) {
  colours ??= new Map();
  if (!colours.has(name)) {
    colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  }
  return colours.get(name);
}

/** Returns a text that fits into a width, cut if need be; empty if nothing fits. */
export function fit(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let length = Math.floor(text.length * width / context.measureText(text).width);
  while (length > 0 && context.measureText(`${text.slice(0, length)}…`).width > width) length--;
  return length > 1 ? `${text.slice(0, length)}…` : "";
}

/** Returns a step of 1, 2 or 5 times a power of ten that divides a length into at most `parts` parts. */
export function niceStep(length, parts) {
  const raw = length / parts, power = 10 ** Math.floor(Math.log10(raw));
  return power * ([1, 2, 5].find((factor) => factor * power >= raw) ?? 10);
}
