// The live page: what /debug/status, /debug/pending, /debug/nodes and /events say, and /debug/why;
// and the same of an earlier moment, which /debug/moment says.
// Every text of the cluster goes into the page as text, never as markup.

const STATUS_MS = 2000, NODES_MS = 10000, HOURS = 3, MAX_EVICTIONS = 500, MAX_ROWS = 200, SHORT_ROWS = 25;
const $ = (id) => document.getElementById(id);
const query = $("query");
let status = null, nodes = null, pending = null, shownNodes = new Map();
const evictions = new Map(); // by the id of the case, oldest first
let past = null; // the moment that is shown, and its evictions; null is now

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function fill(parent, children) {
  const focused = parent.contains(document.activeElement) ? document.activeElement.dataset.ask : null;
  parent.replaceChildren(...children);
  if (focused) parent.querySelector(`[data-ask="${CSS.escape(focused)}"]`)?.focus();
}

function asks(text, kind, name) {
  const button = make("button", { type: "button", textContent: text });
  button.dataset.ask = `${kind}=${name}`;
  return button;
}

// A reason leads to what it means; what has no reason stays empty.
function reasonLink(code) {
  return code ? make("a", { href: `ui/reasons.html#${code}`, target: "_blank", textContent: code }) : "";
}

function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s >= 172800) return `${Math.floor(s / 86400)}d`;
  if (s >= 7200) return `${Math.floor(s / 3600)}h`;
  if (s >= 120) return `${Math.floor(s / 60)}m`;
  return `${s}s`;
}

const counted = (count, one, several) => `${count.toLocaleString("en")} ${count === 1 ? one : several}`;
const clock = (time) => new Date(time).toLocaleTimeString([], { hour12: false });
// On a narrow screen each cell stands on a line of its own, behind the name of its column.
const cell = (content, name, label) => {
  const made = make("td", name ? { className: name } : {}, content ?? "");
  if (label) made.dataset.label = label;
  return made;
};
const row = (...cells) => make("tr", {}, ...cells);
const item = (text, style = "") => make("li", { textContent: text, className: style });

async function read(path, attempts = 4) {
  const answer = await fetch(path, { cache: "no-store" });
  if (answer.status === 503 && answer.headers.has("Retry-After") && attempts > 1) {
    await new Promise((done) => { setTimeout(done, 1000 * answer.headers.get("Retry-After")); });
    return read(path, attempts - 1);
  }
  if (answer.status === 401 && !$("login").open) $("login").showModal();
  if (!answer.ok) throw new Error(`${answer.status}: ${(await answer.text()).trim()}`);
  return answer.json();
}

// --- the login, where the controller requires a token ---

// The token is in a cookie that no script can read; the page only has whether it was accepted.
async function logIn(token) {
  const answer = await fetch("login", { method: "POST", body: JSON.stringify({ token }) });
  $("login-error").textContent = answer.ok ? "" : (await answer.text()).trim();
  if (!answer.ok) return;
  sessionStorage.setItem("logged-in", "yes");
  location.reload();
}

$("login-form").addEventListener("submit", (event) => {
  event.preventDefault();
  logIn($("token").value).catch((error) => { $("login-error").textContent = error.message; });
});

$("log-out").addEventListener("click", async () => {
  await fetch("logout", { method: "POST" });
  sessionStorage.removeItem("logged-in");
  location.reload();
});

// --- overview and what waits ---

async function followStatus() {
  if (!document.hidden && !past) {
    try {
      const found = await read("debug/status");
      const waiting = $("findings-details").open ? await read("debug/pending") : pending;
      if (!past) {
        [status, pending] = [found, waiting];
        showStatus();
      }
    } catch (error) {
      if (!past) {
        showBadges([badge("no answer", "bad")]);
        $("identity").textContent = `${error.message}; asking again`;
      }
    }
  }
  setTimeout(followStatus, STATUS_MS);
}

const badge = (text, style) => make("span", { className: `badge ${style}`, textContent: text });

// Screen readers read the badges out when they change, and only then.
function showBadges(badges) {
  const text = badges.map((each) => each.textContent).join("");
  if ($("badges").textContent !== text) $("badges").replaceChildren(...badges);
}

function showStatus() {
  const now = new Date(status.time), dry = status.mode === "dry_run";
  $("identity").textContent =
    `${status.cluster || "cluster not known yet"}${status.apiServer ? ` at ${status.apiServer}` : ""} · ${status.version}${status.host ? ` on ${status.host}` : ", as recorded"} · up ${span(now - new Date(status.started))}`;
  const badges = past ? [badge("not now", "warn")] : [];
  badges.push(badge(dry ? "dry run" : "live", dry ? "warn" : "good"));
  badges.push(badge(status.state.name, status.state.severity));
  showBadges(badges);
  fill($("state"), stateItems());
  fill($("limits"), limitItems());
  fill($("moving"), movingItems(now));
  $("jobs-card").hidden = !status.migrations.enabled;
  fill($("jobs"), jobItems(now));
  fill($("sinks"), sinkItems());
  showWaiting(now);
}

function stateItems() {
  const found = [item(`policy ${status.policy.file}, revision ${status.policy.revision}`)];
  found.push(...status.policy.problems.map((each) => item(`newer files are rejected: ${each}`, "bad")));
  found.push(...(status.modes || []).map((each) => item(`${each.mode}: ${each.profile}/${each.plugin}`, "warn")));
  found.unshift(item(status.state.summary, status.state.severity));
  for (const each of status.pauses) if (!each.reason && each.note) found.push(item(`${each.name}: ${each.note}`, "warn"));
  const engaged = status.brakes.filter((each) => each.reason);
  found.push(...engaged.map((each) => item(brakeText(each), "bad")));
  if (!engaged.length) found.push(item("no brake engaged", "good"));
  found.push(item(`${counted(status.nodes, "node", "nodes")} that the policy selects, ${counted(status.pods, "pod", "pods")}`));
  return found;
}

function brakeText(brake) {
  const now = new Date(status.time), scope = brake.scope === "cluster" ? "the whole cluster" : brake.scope;
  const text = `brake ${brake.name} holds ${scope} for ${span(now - new Date(brake.since))}: ${brake.reason}; ${brake.release}`;
  return brake.until ? `${text} (in ${span(new Date(brake.until) - now)}, at ${clock(brake.until)}${brake.isLeast ? ", at the earliest" : ""})` : text;
}

function limitItems() {
  const { warmUpRatio, rates, buckets, windows } = status.limits;
  const found = [];
  if (warmUpRatio < 1) found.push(item(`warming up: rates are at ${Math.round(100 * warmUpRatio)} %`, "warn"));
  const empty = buckets.filter((each) => each.available < 1).slice(0, 6);
  for (const each of empty) {
    const wait = each.perMinute > 0 ? `next in ${span((60000 * (1 - each.available)) / each.perMinute)}` : "never";
    found.push(item(`${each.scope} ${each.name}: 0 of ${each.burst} left, ${wait}`, "warn"));
  }
  for (const each of windows.slice(0, 4)) found.push(item(`${each.scope} ${each.name}: ${each.counted} of ${each.limit} in the window`));
  const full = rates.map((each) => `${each.scope} ${+each.perMinute.toPrecision(3)}/min`).join(", ");
  found.push(item(full || "no rate limit", "faint"));
  return found;
}

function movingItems(now) {
  const { moving, oldest } = status.moves;
  if (!moving) return [item("nothing is moving", "good")];
  const found = [item(counted(moving, "pod is", "pods are") + " moving")];
  for (const each of oldest.slice(0, 6)) {
    const to = each.toNode ? `${each.replacement} on ${each.toNode}` : each.awaitsReplacement ? "no replacement yet" : "leaves, not replaced";
    found.push(item(`${span(now - new Date(each.since))}: ${each.pod} from ${each.fromNode}; ${to}`));
  }
  return found;
}

function jobItems(now) {
  const { byPhase, jobs } = status.migrations, ended = ["Succeeded", "Failed", "Aborted"];
  const counts = Object.entries(byPhase).map(([phase, number]) => `${number} ${phase}`).join(", ");
  const found = [item(counts || "there is no migration job", counts ? "" : "good")];
  for (const each of jobs.filter(({ phase }) => !ended.includes(phase)).slice(0, 6)) {
    const pod = `${each.namespace}/${each.pod}`, why = [each.reason, each.message].filter(Boolean).join(": ");
    const line = item(`${span(now - new Date(each.created))}: `);
    line.append(asks(pod, "pod", pod), `, made: ${each.madeBy}, ${each.isPaused ? "paused" : each.phase}${why && `: ${why}`}`);
    found.push(line);
  }
  return found;
}

function sinkItems() {
  const marks = { "": "", "no answer yet": "warn" };
  const found = status.sinks.map((each) =>
    item(`${each.name}: ${each.error || `${each.lagRecords} records behind`}`, marks[each.error] ?? "bad"));
  if (past) return [item("a recording has nothing of the journal and the sinks", "faint")];
  if (!status.journal) {
    const why = status.leadership === "standby" ? "this process does not lead" : "the controller starts or stops";
    return [item(`no journal is open: ${why}`, "warn")];
  }
  const { sequence, fault } = status.journal;
  found.unshift(item(fault ? `journal: ${fault}` : `journal: ${sequence} records`, fault ? "bad" : ""));
  return found;
}

// As the command line writes the two largest units of a time.
function age(ms) {
  let rest = Math.max(1, Math.round(ms / 1000));
  const parts = [];
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]]) {
    if (rest >= size) parts.push(`${Math.floor(rest / size)}${unit}`);
    rest %= size;
  }
  return parts.slice(0, 2).join(" ");
}

function nextOf(keeps, turn, isLeast, until, now) {
  if (keeps) return "stays";
  if (turn) return `turn ${isLeast ? "after" : "in"} ${age(new Date(turn) - now)}`;
  if (!until) return "at a change";
  const left = new Date(until) - now;
  if (isLeast) return left > 0 ? `after ${age(left)}` : "when it goes on";
  return left < 500 ? "now" : `in ${age(left)}`;
}

const wanted = (...texts) => texts.join(" ").toLowerCase().includes(query.value.trim().toLowerCase());

function showWaiting(now) {
  const { total, kept, leaving, bySetting, reasons } = status.pending;
  $("waiting-count").textContent = total - kept - leaving;
  $("settings").textContent = [
    ...Object.entries(bySetting).map(([setting, count], at) => `${count.toLocaleString("en")} ${at ? "for" : "wait for"} ${setting}`),
    leaving ? counted(leaving, "pod leaves already", "pods leave already") : "",
    kept ? `${counted(kept, "pod stays", "pods stay")} until a person changes that` : "",
  ].filter(Boolean).join("; ");
  const rows = reasons.filter((each) => wanted(each.reason, each.example, each.message)).map((each) => {
    const all = each.lastTurn && each.findings > 1 ? `; all of them in ${each.isLeast ? "at least" : "about"} ${age(new Date(each.lastTurn) - now)}` : "";
    return row(cell(each.findings, "", "Findings"), cell(reasonLink(each.reason), "", "Reason"), cell(span(now - new Date(each.since)), "", "Longest"),
      cell(nextOf(each.keeps, each.nextTurn, each.isLeast, each.nextUntil, now), "", "Next"),
      cell(make("span", {}, asks(each.example, "pod", each.example), `: ${each.message}${all}${each.setting ? ` [setting: ${each.setting}]` : ""}`), "name", "Why"));
  });
  fill($("reasons"), rows.length ? rows : [row(make("td", { colSpan: 5, textContent: "nothing waits" }))]);
  const findings = (pending?.findings ?? []).filter((each) => wanted(each.namespace, each.pod, `${each.namespace}/${each.pod}`, each.node, each.plugin, each.reason));
  fill($("findings"), findings.slice(0, MAX_ROWS).map((each) => {
    const pod = `${each.namespace}/${each.pod}`;
    const turn = each.turn ? `${each.turn.place} of ${each.turn.of}, ` : "";
    return row(cell(asks(pod, "pod", pod), "name", "Pod"), cell(asks(each.node, "node", each.node), "", "Node"), cell(each.plugin, "", "Plugin"),
      cell(reasonLink(each.reason), "", "Reason"), cell(span(now - new Date(each.since)), "", "Since"),
      cell(turn + nextOf(each.keeps, each.turn?.at, (each.turn ?? each).isLeast, each.until, now), "", "Next"));
  }));
}

// --- nodes ---

async function followNodes() {
  if (!document.hidden && !past) {
    try {
      const found = await read("debug/nodes");
      if (!past) {
        nodes = found;
        showNodes();
      }
    } catch { /* the badge of the status says so */ }
  }
  setTimeout(followNodes, NODES_MS);
}

function nodeClass(each) {
  const names = ["node"];
  if (each.nodeClass === "overutilized") names.push("over");
  if (each.nodeClass === "underutilized") names.push("under");
  if (!each.ready || !each.eligible || each.cordoned) names.push("out");
  if (each.waiting || each.moving) names.push("busy");
  return names.join(" ");
}

function nodeText(each) {
  const shares = (map) => Object.entries(map ?? {}).map(([name, percent]) => `${name} ${percent} %`).join(", ");
  const facts = [each.name, each.nodeClass, each.ready ? "" : "not Ready", each.cordoned ? "cordoned" : "",
    counted(each.pods, "pod", "pods"), `requested ${shares(each.requested) || "nothing"}`, each.used ? `used ${shares(each.used)}` : "",
    each.waiting ? counted(each.waiting, "finding waits", "findings wait") : "", each.moving ? `${each.moving} moving` : "", (each.taints ?? []).join(" ")];
  return facts.filter(Boolean).join("; ");
}

function showNodes() {
  $("nodes-count").textContent = nodes.nodes.length;
  $("legend").textContent = `Each square is a node; its bars are cpu and memory, ${nodes.nodes.some((each) => each.used) ? "used" : "requested"}, of what is allocatable. `
    + `Solid red: overutilized, dashed green: underutilized${nodes.classedBy ? ` by ${nodes.classedBy}` : ""}; dotted: not Ready, not selected or cordoned; ringed: findings wait or pods move.`;
  const zones = new Map();
  for (const each of nodes.nodes) {
    if (!wanted(each.name, each.zone, each.nodeClass ?? "", (each.taints ?? []).join(" "))) continue;
    if (!zones.has(each.zone)) zones.set(each.zone, []);
    zones.get(each.zone).push(each);
  }
  const kept = new Map();
  const groups = [...zones].sort().map(([zone, members]) => {
    const grid = make("div", { className: "grid" }, ...members.map((each) => {
      const text = nodeText(each), old = shownNodes.get(each.name);
      const square = old?.title === text ? old : squareOf(each, text);
      kept.set(each.name, square);
      return square;
    }));
    return make("div", { className: "zone" }, make("h3", { textContent: `${zone || "no zone"}: ${members.length} nodes` }), grid);
  });
  shownNodes = kept;
  fill($("zones"), groups);
}

function squareOf(each, text) {
  const square = make("button", { type: "button", className: nodeClass(each), title: text });
  square.setAttribute("aria-label", text);
  square.dataset.ask = `node=${each.name}`;
  square.tabIndex = shownNodes.size || square.previousSibling ? -1 : 0;
  for (const resource of ["cpu", "memory"]) {
    const bar = make("i");
    bar.style.height = `${Math.min(100, (each.used ?? each.requested)[resource] ?? 0)}%`;
    square.append(bar);
  }
  return square;
}

$("zones").addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10 }[event.key];
  if (!step) return;
  const all = [...$("zones").querySelectorAll(".node")];
  const next = all[all.indexOf(document.activeElement) + step];
  if (next) { next.focus(); event.preventDefault(); }
});

$("zones").addEventListener("focusin", (event) => {
  for (const each of $("zones").querySelectorAll('.node[tabindex="0"]')) each.tabIndex = -1;
  if (event.target.classList.contains("node")) event.target.tabIndex = 0;
});

// --- evictions, as they happen ---

function follow() {
  const from = new Date(Date.now() - HOURS * 3600e3).toISOString();
  const stream = new EventSource(`events?type=eviction&from=${encodeURIComponent(from)}`);
  const say = (text) => {
    streamText = text;
    if (!past) $("stream").textContent = text;
  };
  stream.onopen = () => say("Connected to the stream of events.");
  stream.onerror = () => {
    say("The stream of events is interrupted; the page connects again and misses nothing.");
    // An answer such as the 503 of a controller that starts ends an EventSource for good; a login reloads the page.
    if (stream.readyState === EventSource.CLOSED) setTimeout(() => { if (!$("login").open) follow(); }, STATUS_MS);
  };
  for (const kind of ["requested", "succeeded", "refused", "failed", "unknown", "dry_run", "corrected", "followed_up"]) {
    stream.addEventListener(`eviction.${kind}`, (event) => { take(kind, JSON.parse(event.data)); });
  }
}

let drawing = false, streamText = "";

function note(found, kind, event) {
  const { data } = event, key = event.correlationid;
  const known = found.get(key) ?? { key, time: event.time, who: data.who, why: data.why, trigger: data.trigger };
  if (kind === "followed_up") known.followUp = { ...data.followUp, time: event.time };
  else if (kind !== "requested") known.outcome = { ...data.outcome, kind, time: event.time };
  found.set(key, known);
  if (found.size > MAX_EVICTIONS) found.delete(found.keys().next().value);
}

function take(kind, event) {
  note(evictions, kind, event);
  if (!drawing && !past) {
    drawing = true;
    setTimeout(() => { drawing = false; showEvictions(); }, 100);
  }
}

function replacementOf({ followUp }) {
  if (!followUp) return "";
  const { replacement, result, message, readyMs, findingHolds } = followUp;
  const where = replacement?.node ? `${replacement.name} on ${replacement.node}` : message || result;
  const ready = readyMs == null ? "" : `, Ready after ${(readyMs / 1000).toFixed(1)} s`;
  return `${where}${ready}${findingHolds ? "; the finding holds there, too" : ""}`;
}

// A change that names no object, such as a start or the end of a move, says less than what is wrong then.
function changeOf({ trigger, why }) {
  if (trigger.object) return `${trigger.change} ${trigger.object}`;
  return `${trigger.change === "Resynced" ? "found at a look at everything" : trigger.change}: ${why.message}`;
}

let showsAll = false;

$("more").addEventListener("click", () => {
  showsAll = true;
  showEvictions();
});

function showEvictions() {
  const all = [...(past?.evictions ?? evictions).values()].reverse();
  $("evictions-count").textContent = all.length;
  const rows = all.filter((each) => wanted(`${each.who.namespace}/${each.who.name}`, each.who.node, each.why.plugin, each.outcome?.reason ?? ""));
  const limit = showsAll ? MAX_ROWS : SHORT_ROWS;
  $("more").hidden = showsAll || rows.length <= limit;
  fill($("feed"), rows.slice(0, limit).map((each) => {
    const pod = `${each.who.namespace}/${each.who.name}`, owner = each.who.owners.at(-1);
    const workload = owner ? `${each.who.namespace}/${owner.kind}/${owner.name}` : pod;
    const result = each.outcome ? each.outcome.result : "requested";
    const made = row(cell(clock(each.time), "", "Time"), cell(asks(pod, owner ? "owner" : "pod", workload), "name", "Pod"), cell(asks(each.who.node, "node", each.who.node), "", "From"),
      cell(each.why.plugin, "", "Plugin"), cell(changeOf(each), "", "Change"), cell(result, "", "Result"), cell(replacementOf(each), "", "Replacement"));
    made.dataset.case = each.key;
    made.title = each.why.message;
    if (Date.now() - new Date(each.time) < 3000) made.className = "fresh";
    return made;
  }));
  drawTimeline(all);
}

const SVG = "http://www.w3.org/2000/svg";

function draw(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text) element.textContent = text;
  return element;
}

function drawTimeline(all) {
  const width = Math.max(300, $("timeline").clientWidth), height = 120, end = past?.at ?? Date.now();
  const oldest = Math.min(end - 60e3, ...all.map((each) => +new Date(each.time)));
  const begin = Math.max(end - HOURS * 3600e3, oldest - 5e3);
  const x = (time) => 70 + ((width - 80) * (new Date(time) - begin)) / (end - begin);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "xMinYMin" });
  const lanes = [["changes", 25], ["evictions", 60], ["Ready", 95]];
  for (const [name, y] of lanes) {
    svg.append(draw("line", { class: "axis", x1: 70, x2: width - 10, y1: y, y2: y }), draw("text", { x: 4, y: y + 4 }, name));
  }
  const steps = width < 600 ? 2 : 4;
  for (let step = 0; step <= steps; step += 1) {
    const time = begin + ((end - begin) * step) / steps;
    svg.append(draw("text", { x: Math.min(x(time), width - 60), y: height - 4 }, clock(time)));
  }
  const dot = (kind, time, y, text) => {
    const circle = draw("circle", { class: kind, cx: x(time), cy: y, r: 4 });
    circle.append(draw("title", {}, text));
    svg.append(circle);
  };
  for (const each of all) {
    const pod = `${each.who.namespace}/${each.who.name}`;
    dot("change", each.time, 25, `${clock(each.time)} ${each.trigger.change} ${each.trigger.object}`);
    if (each.outcome) dot(each.outcome.kind === "succeeded" || each.outcome.kind === "dry_run" ? "evicted" : "failed", each.outcome.time, 60, `${clock(each.outcome.time)} ${pod}: ${each.outcome.result}`);
    if (each.followUp) dot(each.followUp.readyMs == null ? "failed" : "ready", each.followUp.time, 95, `${clock(each.followUp.time)} ${pod}: ${replacementOf(each)}`);
  }
  $("timeline").replaceChildren(svg);
}

// --- why ---

document.addEventListener("click", (event) => {
  const asked = event.target.closest("[data-ask]");
  if (asked) explain(asked.dataset.ask);
});

async function explain(question) {
  const [kind, ...rest] = question.split("="), name = rest.join("=");
  $("detail-title").textContent = `Why ${kind} ${name}`;
  fill($("detail-body"), [make("p", { textContent: "asking" })]);
  if (!$("detail").open) $("detail").showModal();
  try {
    const moment = past ? { at: new Date(past.at).toISOString() } : {};
    const answer = await read(`debug/why?${new URLSearchParams({ [kind]: name, ...moment })}`);
    fill($("detail-body"), answer.plugins ? podAnswer(answer) : listAnswer(answer));
  } catch (error) {
    fill($("detail-body"), [make("p", { className: "bad", textContent: error.message })]);
  }
}

function table(header, rows) {
  const head = make("thead", {}, row(...header.map((text) => make("th", { scope: "col", textContent: text }))));
  const scroll = make("div", { className: "scroll", tabIndex: 0 }, make("table", {}, head, make("tbody", {}, ...rows)));
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", header.join(", "));
  return scroll;
}

function podAnswer(answer) {
  const style = { waits: "warn", evicting: "bad", moved: "bad", stays: "good" }[answer.state] ?? "faint";
  const code = answer.reason ? [" (", reasonLink(answer.reason), ")"] : [];
  const gone = answer.created === null;
  const parts = [make("p", {}, gone ? "Gone from " : `${answer.phase} on `, asks(answer.node || "no node", "node", answer.node), `, of ${answer.owners.join(" < ") || "no owner"}`),
    make("p", { className: `${style} state` }, answer.state, ...code, `: ${answer.summary}`)];
  if (answer.paused) parts.push(make("p", { className: "bad", textContent: `nothing is evicted now: ${answer.paused}` }));
  for (const each of answer.jobs) {
    const why = [each.reason, each.message].filter(Boolean).join(": ");
    parts.push(make("p", { textContent: `Migration job ${each.name}, made: ${each.madeBy}, ${each.isPaused ? "paused" : each.phase}${why && `; ${why}`}` }));
  }
  if (!gone) parts.push(make("h3", { textContent: "Plugins" }), table(["Profile", "Plugin", "Answer", "Message"],
    answer.plugins.map((each) => row(cell(each.profile), cell(each.plugin), cell(each.answer), cell(each.message)))));
  for (const profile of answer.profiles) {
    const note = profile.assumed ? `, as they would answer a finding of ${profile.plugin}` : "";
    const rejecting = profile.gates.filter((each) => !each.passes), passing = profile.gates.filter((each) => each.passes);
    parts.push(make("h3", { textContent: `Gates of profile ${profile.profile}${note}` }));
    if (rejecting.length) parts.push(table(["Gate", "Reason", "Message", "Until"], rejecting.map((each) =>
      row(cell(each.gate), cell(reasonLink(each.reason)), cell(`${each.message}${each.setting ? ` [setting: ${each.setting}]` : ""}`),
        cell(each.until ? clock(each.until) : (each.waitsFor ?? []).join(", "))))));
    parts.push(make("p", { className: "faint", textContent: `pass: ${passing.map((each) => each.gate).join(", ")}` }),
      ...passing.filter((each) => each.message).map((each) => make("p", { textContent: `${each.gate} passes: ${each.message}` })),
      make("p", { textContent: `Other nodes: ${profile.nodes}` }));
  }
  if (answer.history.length) parts.push(make("h3", { textContent: "Earlier evictions of this workload" }),
    table(["Ended", "Pod", "From", "Plugin", "Result", "To"], answer.history.map((each) => row(cell(clock(each.ended)), cell(each.pod),
      cell(each.fromNode), cell(each.plugin), cell(each.result), cell(each.toNode ?? "")))));
  return parts;
}

function listAnswer(answer) {
  const facts = answer.taints ? [answer.summary, `taints: ${answer.taints.join(", ") || "none"}`]
    : [answer.wanted == null ? "" : `wants ${counted(answer.wanted, "pod", "pods")}`, `${answer.moving} moving`];
  const counts = Object.entries(answer.states).map(([state, count]) => `${state}: ${count}`).join(", ");
  const parts = [make("p", { textContent: [...facts, counts].filter(Boolean).join("; ") })];
  if (answer.paused) parts.push(make("p", { className: "bad", textContent: `nothing is evicted now: ${answer.paused}` }));
  parts.push(table(["Pod", "Node", "State", "Reason", "Summary"], answer.pods.map((each) => {
    const pod = `${each.namespace}/${each.name}`;
    return row(cell(asks(pod, "pod", pod), "name"), cell(each.node), cell(each.state), cell(reasonLink(each.reason)), cell(each.summary));
  })));
  return parts;
}

$("close").addEventListener("click", () => $("detail").close());

$("search").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = query.value.trim();
  if (!text) return;
  const slashes = text.split("/").length - 1;
  explain(slashes === 2 ? `owner=${text}` : nodes?.nodes.some((each) => each.name === text) ? `node=${text}` : `pod=${text}`);
});

addEventListener("resize", () => drawTimeline([...(past?.evictions ?? evictions).values()]));

query.addEventListener("input", () => {
  if (status) showWaiting(new Date(status.time));
  if (nodes) showNodes();
  showEvictions();
});

$("findings-details").addEventListener("toggle", async () => {
  if ($("findings-details").open && !past) {
    const found = await read("debug/pending");
    if (past) return;
    pending = found;
    showWaiting(new Date(status.time));
  }
});

// --- an earlier moment, as far as the recording has it ---

const QUIET_MS = 400, STEPS = 500; // wait for another key, so many of which lead from end to end
const when = (time) => `${new Date(time).toISOString().slice(0, 19)}Z`;
let times = [], timesFault = "", asked = 0, chosen = null, waits = 0;

async function showTimes() {
  const notes = $("moment-notes");
  try {
    ({ times } = await read("debug/recording"));
    if (notes.textContent === timesFault) notes.textContent = ""; // else it is the answer to a question
  } catch (error) {
    notes.textContent = timesFault = error.message;
    return;
  }
  if (!times.length) return;
  const slider = $("slider"), first = Math.ceil(new Date(times[0].since) / 1000), last = Math.floor(new Date(times.at(-1).until) / 1000);
  [slider.min, slider.max, slider.step] = [first, last, Math.max(1, Math.round((last - first) / STEPS))];
  slider.disabled = false;
  point(chosen ?? 1000 * last);
  const gaps = times.slice(1).map((each, at) => [times[at].until, each.since]);
  $("gaps").replaceChildren(...gaps.map(([since, until]) => {
    const gap = make("i", { title: `nothing is recorded from ${when(since)} to ${when(until)}` });
    gap.style.left = `${(100 * (new Date(since) / 1000 - first)) / Math.max(1, last - first)}%`;
    gap.style.width = `${(100 * (new Date(until) - new Date(since))) / 1000 / Math.max(1, last - first)}%`;
    return gap;
  }));
  const missing = gaps.length ? `; nothing from ${gaps.map((each) => each.map(when).join(" to ")).join(", or from ")}` : "";
  $("times").textContent = `Recorded is ${when(1000 * first)} to ${when(1000 * last)}${missing}.`;
}

function point(ms) {
  $("slider").value = Math.round(ms / 1000);
  $("slider").setAttribute("aria-valuetext", when(ms));
}

async function evictionsUpTo(at) {
  const found = new Map(), from = new Date(at - HOURS * 3600e3).toISOString();
  const answer = await fetch(`events?type=eviction&follow=false&from=${encodeURIComponent(from)}`, { headers: { Accept: "application/x-ndjson" } });
  if (!answer.ok) throw new Error(`${answer.status}: ${(await answer.text()).trim()}`);
  const lines = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await lines.read();
    const parts = (text + (value ?? "")).split("\n");
    text = parts.pop();
    for (const event of parts.filter((each) => each.startsWith("{")).map((each) => JSON.parse(each))) {
      if (new Date(event.time) > at) {
        await lines.cancel();
        return found;
      }
      const kind = /eviction\.([a-z_]+)/.exec(event.type)?.[1];
      if (kind && event.data?.who) note(found, kind, event);
    }
    if (done) return found;
  }
}

// A later question counts: the answer to an earlier one is dropped.
async function lookAt(text) {
  const question = ++asked;
  $("moment").textContent = `Reading the recording of ${text}`;
  try {
    const found = await read(`debug/moment?${new URLSearchParams({ at: text })}`);
    const at = +new Date(found.at), before = await evictionsUpTo(at);
    if (question !== asked) return;
    [past, status, pending, nodes, chosen] = [{ at, evictions: before }, found.status, found.pending, found.nodes, at];
    $("moment-notes").textContent = found.notes.join("; ");
    $("moment").textContent = `Not now: everything below is as it was at ${when(at)}. The last change before it was at ${when(found.lastChange)}.`;
    $("stream").textContent = `Evictions of the ${HOURS} hours before ${when(at)}.`;
    point(at);
    showPage();
  } catch (error) {
    if (question !== asked) return;
    $("moment-notes").textContent = error.message;
    sayMoment();
  }
}

function sayMoment() {
  $("moment").textContent = past ? `Not now: everything below is as it was at ${when(past.at)}.` : "";
}

function showPage() {
  document.body.classList.toggle("past", past !== null);
  document.title = past ? `${when(past.at)} - reactive-desched` : "reactive-desched";
  $("now").hidden = !past;
  if (status) showStatus();
  if (nodes) showNodes();
  showEvictions();
}

async function backToNow() {
  asked += 1;
  clearTimeout(waits);
  [past, chosen] = [null, null];
  $("moment-notes").textContent = "";
  $("stream").textContent = streamText;
  sayMoment();
  $("time-details").querySelector("summary").focus();
  try {
    [status, pending, nodes] = [await read("debug/status"), await read("debug/pending"), await read("debug/nodes")];
  } catch { /* the badge of the status says so, when it is asked again */ }
  if (!past) showPage();
}

function choose(ms) {
  chosen = ms;
  point(ms);
  clearTimeout(waits);
  waits = setTimeout(() => lookAt(when(ms)), QUIET_MS);
}

$("time-details").addEventListener("toggle", () => { if ($("time-details").open) showTimes(); });
$("slider").addEventListener("input", () => choose(1000 * $("slider").value));
$("now").addEventListener("click", backToNow);
$("time-form").addEventListener("click", (event) => {
  const step = event.target.dataset.step;
  if (step && times.length) choose((chosen ?? 1000 * $("slider").value) + 1000 * step);
});
$("time-form").addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(waits);
  lookAt($("at").value.trim());
});

function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  $("theme").setAttribute("aria-pressed", String(dark));
  $("theme").textContent = dark ? "Light" : "Dark";
}

$("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme !== "dark"));
setTheme(matchMedia("(prefers-color-scheme: dark)").matches);
$("log-out").hidden = !sessionStorage.getItem("logged-in");
showEvictions();
followStatus();
followNodes();
follow();
