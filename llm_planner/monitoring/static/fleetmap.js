// SPDX-License-Identifier: Apache-2.0
// One map of all robots whose home is known: x to the right, y up, each robot's own frame turned into it.

import { prepare } from "./draw.js";
import { bodyBox, drawBody, drawGrid, drawLabels, drawThing, drawTrail, glide, nameLabel } from "./map.js";
import { store } from "./store.js";

const SMOOTH = 0.25, MARGIN_M = 1, LEAST_M = 2;
let figure = null, canvas = null, shown = null; // what part of the map is shown: {left, right, bottom, top}

/** Draws the map into a box, first of its tiles; takes it away if no robot's home is known. */
export function drawFleet(box, names) {
  if (!names.length) { figure?.remove(); figure = null; return; }
  if (!figure) {
    figure = document.createElement("figure");
    canvas = document.createElement("canvas");
    figure.className = "tile fleet";
    canvas.setAttribute("role", "img");
    figure.append(canvas);
    shown = null;
  }
  if (box.firstChild !== figure) box.prepend(figure);
  const robots = names.map((name) => store.robots.get(name)), things = knownThings(robots);
  robots.forEach((robot) => glide(robot.shown, robot.view.pose));
  const { context, width, height } = prepare(canvas);
  frame(robots, things);
  const scale = Math.min(width / (shown.right - shown.left), height / (shown.top - shown.bottom));
  const middle = { x: (shown.left + shown.right) / 2, y: (shown.bottom + shown.top) / 2 };
  const at = (x_m, y_m) => [width / 2 + (x_m - middle.x) * scale, height / 2 - (y_m - middle.y) * scale];
  drawGrid(context, width, height, scale, at(0, 0));
  const labels = [], taken = [];
  for (const role of ["area", "container", "thing"]) {
    for (const thing of things.filter((each) => each.role === role)) {
      const [length, breadth] = thing.size_m;
      labels.push(...drawThing(context, thing, at(...thing.position_m), length * scale, breadth * scale));
    }
  }
  const named = robots.map((robot, number) => {
    const here = drawOne(context, robot, at);
    taken.push(bodyBox(here));
    return nameLabel(context, names[number], here);
  });
  drawLabels(context, width, height, [...named, ...labels], taken);
  canvas.setAttribute("aria-label", `${names.join(", ")} in one map, from above`);
}

/** Returns a point of a robot's frame in the map. */
function placed(home, x_m, y_m) {
  const yaw = home.yaw_deg * Math.PI / 180, c = Math.cos(yaw), s = Math.sin(yaw);
  return [home.x_m + c * x_m - s * y_m, home.y_m + s * x_m + c * y_m];
}

/** Returns everything that any robot knows of, once. */
function knownThings(robots) {
  const seen = robots.flatMap((robot) => robot.things.map((thing) => inMap(robot, thing)));
  const known = [];
  for (const thing of seen.sort((a, b) => a.doubt - b.doubt)) {
    const is_known = known.some((other) => other.name === thing.name && (thing.is_moving || distance(other, thing) < 1));
    if (!is_known) known.push(thing);
  }
  return known;
}

/** Returns a thing in the map's frame, and how much its robot's word on it is to be doubted: the nearest robot knows
 * best where a moving thing is, and one that stands straight knows best how large a thing is. */
function inMap({ view, shown: pose }, thing) {
  const { home } = view, yaw = home.yaw_deg * Math.PI / 180, [length, breadth] = thing.size_m;
  const position_m = placed(home, ...thing.position_m);
  const away_m = Math.hypot(thing.position_m[0] - pose.x_m, thing.position_m[1] - pose.y_m);
  const is_turned = Math.abs(Math.sin(yaw)) > 0.7;
  return {
    ...thing, position_m, size_m: is_turned ? [breadth, length] : [length, breadth],
    doubt: thing.is_moving ? away_m : Math.abs(Math.sin(2 * yaw)),
  };
}

function distance(one, other) {
  return Math.hypot(one.position_m[0] - other.position_m[0], one.position_m[1] - other.position_m[1]);
}

function frame(robots, things) {
  const points = robots.flatMap(({ view, shown: pose }) => [[view.home.x_m, view.home.y_m], placed(view.home, pose.x_m, pose.y_m)]);
  for (const { position_m: [x, y], size_m: [length, breadth] } of things.filter((thing) => !thing.is_moving)) {
    points.push([x - length / 2, y - breadth / 2], [x + length / 2, y + breadth / 2]);
  }
  const xs = points.map(([x]) => x), ys = points.map(([, y]) => y);
  const wanted = {
    left: Math.min(...xs) - MARGIN_M, right: Math.max(...xs, Math.min(...xs) + LEAST_M) + MARGIN_M,
    bottom: Math.min(...ys) - MARGIN_M, top: Math.max(...ys, Math.min(...ys) + LEAST_M) + MARGIN_M,
  };
  shown ??= wanted;
  for (const side of Object.keys(wanted)) shown[side] += (wanted[side] - shown[side]) * SMOOTH;
}

/** Draws a robot and its way; returns where it is on the canvas. */
function drawOne(context, robot, at) {
  const { view, shown: pose, trail } = robot, here = at(...placed(view.home, pose.x_m, pose.y_m));
  drawTrail(context, trail.map((each) => at(...placed(view.home, each.x_m, each.y_m))));
  const up_deg = pose.yaw_deg + view.home.yaw_deg - 90; // the arrow is drawn pointing up
  drawBody(context, view, here, at(view.home.x_m, view.home.y_m), up_deg);
  return here;
}
