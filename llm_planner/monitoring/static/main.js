// SPDX-License-Identifier: Apache-2.0
// The page: listens to the stream of documents, and draws what is known. Every text of others goes through textContent.

import { scatter, spark } from "./charts.js";
import * as rows from "./rows.js";
import * as map from "./map.js";
import * as queue from "./queue.js";
import * as stops from "./stops.js";
import { now, robotNames, store, take } from "./store.js";
import { counted, isSilent, silence } from "./words.js";

const FRAME_MS = 80;
const $ = (name) => document.getElementById(name);
let measured_shown = -1, log_shown = -1, alerts_shown = "", last_frame_ms = 0;

function render() {
  const { planner } = store.document;
  $("planner").textContent = planner?.planner ?? "";
  const is_well = planner && planner.state === "ACTIVE" && planner.is_ready && !isSilent();
  const state = !planner ? "no planner" : isSilent() ? silence() : planner.is_ready ? planner.state.toLowerCase() : "starting";
  $("state").textContent = state;
  $("state").className = `pill ${is_well ? "good" : planner && !isSilent() ? "warn" : "bad"}`;
  $("summary").classList.toggle("stale", isSilent());
  $("model").textContent = planner ? `${planner.model}, policy ${planner.policy}` : "";
  renderAlerts();
  renderSummary();
  queue.render($("queue"), $("queue-more"));
  renderLog();
  renderEmpty();
  stops.render();
}

/** Says the next step where there is nothing to show yet. */
function renderEmpty() {
  const has_robots = robotNames().length > 0, start = "Start some: llm-planner up";
  $("rows-empty").textContent = has_robots ? "" : `No robots yet. ${start}`;
  $("map-empty").textContent = store.robots.size ? "" : has_robots ? "No robot shows where it is." : `No robots yet. ${start}`;
}

function renderAlerts() {
  const key = JSON.stringify(store.document.alerts);
  if (key === alerts_shown) return; // a screen reader reads whatever is replaced
  alerts_shown = key;
  $("alerts").replaceChildren(...store.document.alerts.slice(0, 8).map((alert) => {
    const line = document.createElement("div"), about = document.createElement("b");
    line.className = `alert ${alert.level}`;
    const level = Object.assign(document.createElement("span"), { className: "level", textContent: alert.level === "bad" ? "Problem" : "Warning" });
    about.textContent = alert.about;
    line.append(level, ...(alert.about ? [about] : []), alert.text);
    return line;
  }));
}

function renderSummary() {
  const { loop, rates, planner, ended, num_lost, num_broken } = store.document;
  const codes = Object.entries(ended).sort().map(([code, number]) => `${number} ${code === "NONE" ? "done" : code.toLowerCase().replaceAll("_", " ")}`);
  const lost = [num_lost ? `${counted(num_lost, "message")} lost` : "", num_broken ? `${num_broken} broken` : ""];
  $("goals-text").textContent = !planner ? "–" : isSilent() ? "?" : planner.num_goals;
  $("goals-more").textContent = [...codes, ...lost].filter(Boolean).join(", ") || "No goal has ended yet.";
  if (loop) renderLoop(loop);
  else blank("slots", "kv");
  if (rates) renderRates(rates);
  else blank("tokens", "busy");
}

/** Says that some figures are not known now. */
function blank(...names) {
  for (const name of names) {
    $(`${name}-text`).textContent = "–";
    $(`${name}-more`).textContent = "";
    $(name).replaceChildren();
  }
}

function renderLoop(loop) {
  const { status } = loop, total = status.num_kv_blocks, prefix = loop.num_prefix_kv_blocks;
  const used = total - status.num_free_kv_blocks - prefix;
  $("slots-text").textContent = `${status.num_running} of ${loop.max_num_seqs}`;
  $("slots-more").textContent = `${status.num_ready} ready, ${status.num_suspended} suspended`;
  bar($("slots"), loop.max_num_seqs, [[status.num_running, "generation"], [Math.min(status.num_ready, loop.max_num_seqs - status.num_running), "warn"]]);
  $("kv-text").textContent = `${total ? Math.round(100 * (used + prefix) / total) : 0} %`;
  $("kv-more").textContent = `${used} used, ${prefix} prefixes, ${status.num_free_kv_blocks} free`
    + (loop.num_offloaded_kv_blocks ? `, ${loop.num_offloaded_kv_blocks} offloaded` : "");
  bar($("kv"), total, [[prefix, "suspension"], [used, "generation"]]);
}

function renderRates(rates) {
  $("tokens-text").textContent = `${Math.round(rates.tokens_per_s)} /s`;
  $("tokens-more").textContent = `${Math.round(rates.computed_tokens_per_s)} computed`;
  $("busy-text").textContent = `${Math.round(100 * rates.busy_share)} %`;
  $("busy-more").textContent = `${Math.round(rates.steps_per_s)} steps/s`
    + (rates.decision_s === null ? "" : `, decision ${(1000 * rates.decision_s).toFixed(2)} ms`);
  spark($("tokens"), store.history.map((moment) => moment.tokens));
  spark($("busy"), store.history.map((moment) => moment.busy), 1);
}

function bar(box, total, shares) {
  shares.forEach(([amount, name], number) => {
    const part = box.children[number] ?? box.appendChild(document.createElement("i"));
    part.style.width = `${100 * amount / Math.max(1, total)}%`;
    part.style.background = `var(--${name})`;
  });
}

function renderLog() {
  const last = store.log.at(-1)?.number ?? 0;
  if (last === log_shown && !store.document.is_whole && $("log").children.length) {
    for (const item of $("log").children) item.firstChild.textContent = ago(item.dataset.at);
    return;
  }
  log_shown = last;
  $("log").replaceChildren(...store.log.slice(-60).reverse().map((entry) => {
    const item = document.createElement("li"), time = document.createElement("time"), about = document.createElement("b");
    item.className = entry.level;
    item.dataset.at = entry.at;
    time.textContent = ago(entry.at);
    about.textContent = entry.about;
    item.append(time, about, entry.text);
    return item;
  }));
  $("log-text").textContent = store.log.length ? "" : "Nothing out of the ordinary yet.";
}

function ago(at) {
  const seconds = Math.max(0, now() - at);
  return seconds < 90 ? `${Math.round(seconds)} s ago` : `${Math.round(seconds / 60)} min ago`;
}

function frame(time_ms) {
  requestAnimationFrame(frame);
  if (time_ms - last_frame_ms < FRAME_MS || !store.document) return;
  last_frame_ms = time_ms;
  rows.draw($("rows"));
  map.draw($("map"));
  const count = store.measured.length ? store.measured.length + $("measured").clientWidth : 0;
  if (count !== measured_shown || store.measured.length === 500) {
    measured_shown = count;
    $("measured-text").textContent = scatter($("measured"), store.measured);
  }
}

function listen() {
  const source = new EventSource("/events");
  source.onopen = () => { $("connection").textContent = "live"; };
  source.onmessage = (event) => { take(JSON.parse(event.data)); render(); };
  source.onerror = () => {
    $("connection").textContent = "connection lost, trying again";
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 3000);
  };
}

rows.setUp($("rows"), $("windows"), $("legend"), $("tip"));
queue.setUp($("queue"));
stops.setUp($("stops"), $("stop-all"), $("stop-each"), $("stop-text"));
requestAnimationFrame(frame);
listen();
