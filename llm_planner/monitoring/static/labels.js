// SPDX-License-Identifier: Apache-2.0
// Names in a map, none on top of another: the first has the best place; a name without a place is left out.

const HEIGHT = 12, GAP = 2;

/** Returns those labels that have a place, with their left edge and baseline.
 *
 * labels: {text, width, x, y, below, above, may_stand_next_to}, the most important first; `below` and `above` are distances of a baseline from y.
 * taken: rectangles {left, right, top, bottom} that are occupied already.
 */
export function place(labels, width, height, taken = []) {
  const boxes = [...taken], placed = [];
  for (const label of labels) {
    const half = label.width / 2;
    const tries = [
      [label.x - half, label.y + label.below], [label.x - half, label.y - label.above],
    ];
    if (label.may_stand_next_to) tries.push([label.x + 12, label.y + 4], [label.x - 12 - label.width, label.y + 4]);
    for (const [left, baseline] of tries) {
      const box = { left: left - GAP, right: left + label.width + GAP, top: baseline - HEIGHT + GAP, bottom: baseline + GAP };
      const is_inside = box.left >= 0 && box.right <= width && box.top >= 0 && box.bottom <= height;
      if (!is_inside || boxes.some((other) => overlap(box, other))) continue;
      boxes.push(box);
      placed.push({ ...label, left, baseline });
      break;
    }
  }
  return placed;
}

export function overlap(one, other) {
  return one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;
}
