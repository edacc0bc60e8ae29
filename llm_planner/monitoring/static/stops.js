// SPDX-License-Identifier: Apache-2.0
// Buttons that stop robots. They need the token in the page's address (#token=...), which never leaves in a request's URL.

import { store } from "./store.js";

let token = "", box, each, text;

export function setUp(section, all, list, status) {
  [box, each, text] = [section, list, status];
  token = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
  box.hidden = !token;
  all.addEventListener("click", () => stop(""));
}

export function render() {
  if (box.hidden) return;
  const names = [...store.robots.keys()].sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
  if (each.dataset.names === names.join(" ")) return; // a button that is replaced while it is pressed is not pressed
  each.dataset.names = names.join(" ");
  each.replaceChildren(...names.map((name) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `Stop ${name}`;
    button.addEventListener("click", () => stop(name));
    return button;
  }));
}

async function stop(name) {
  const who = name || "all robots";
  text.textContent = `stopping ${who} ...`;
  try {
    const answer = await fetch("/stop", { method: "POST", body: name, headers: { authorization: `Bearer ${token}` } });
    if (answer.status === 403) throw new Error("the token is wrong; open the link that was printed");
    if (answer.status === 404) throw new Error("no such robot answers");
    if (!answer.ok) throw new Error(`the dashboard answers ${answer.status}`);
    const problems = Object.entries(await answer.json()).filter(([, problem]) => problem);
    text.textContent = problems.length ? problems.map(([robot, problem]) => `${robot}: ${problem}`).join("; ") : `stopped ${who}`;
  } catch (error) {
    text.textContent = `NOT stopped: ${error.message}; use llm-planner stop`;
  }
}
