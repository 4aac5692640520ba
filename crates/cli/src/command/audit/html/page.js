// The page: which view is shown, the filters, the keys. The whole state is in the fragment, so links and the back button work.

const VIEWS = ["overview", "findings", "nodes", "workloads", "rules", "unchecked"];
const FILTERED = ["findings", "nodes", "workloads"];
const byId = (id) => document.getElementById(id);
// Sections lose their ids, so that the browser does not scroll to them: showing a view begins at its top.
const sections = new Map([...document.querySelectorAll("section.view")].map((section) => [section.id, section]));
for (const section of sections.values()) section.removeAttribute("id");
const nameOfView = (section) => [...sections].find(([, s]) => s === section)?.[0];
const root = document.documentElement;

const graph = new Graph(JSON.parse(byId("data").textContent));
const steps = new Map([...document.querySelectorAll(".steps > div")].map((div) =>
  [div.id.slice(5), [div.querySelector("dt span").textContent, div.querySelector("dd").textContent]]));
const meanings = (n) => steps.get("E" + n) ?? ["Step", ""];
const wayTitle = (i) => byId("way/" + i)?.dataset.start ?? "";

// ---- the fragment: PATH?KEY=VALUE&... --------------------------------------------------------------------------------

function parse() {
  const [path, ...rest] = location.hash.slice(1).split("?");
  const query = Object.create(null);
  for (const pair of rest.join("?").split("&")) {
    const [key, ...value] = pair.split("=");
    if (key) query[fromFragment(key)] = fromFragment(value.join("="));
  }
  return { path: fromFragment(path) || "overview", query };
}

function write(path, query) {
  const pairs = Object.entries(query).filter(([, value]) => value).map(([key, value]) => key + "=" + fragment(value).replace(/%2C/g, ","));
  return "#" + path + (pairs.length ? "?" + pairs.join("&") : "");
}

// ---- lists and filters -----------------------------------------------------------------------------------------------

const findings = [...document.querySelectorAll("details.finding")];
for (const finding of findings) finding.open = false;
// The body of a finding is kept for readers without scripts, so that the browser does not read all of them at once. It is read by
// the same rules when it is needed.
function unwrap(finding) {
  const kept = finding.querySelector("noscript");
  if (kept) kept.replaceWith(...new DOMParser().parseFromString(kept.textContent, "text/html").body.childNodes);
}
const ENTITIES = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'" };
function textOf(finding) {
  const kept = finding.querySelector("noscript")?.textContent ?? "";
  return finding.querySelector("summary").textContent + " " + (kept ? kept.replace(/<[^>]*>/g, " ").replace(/&(amp|lt|gt|quot|#39);/g, (e) => ENTITIES[e]) : finding.querySelector(".body").textContent);
}
document.addEventListener("toggle", (event) => event.target.open && event.target.matches("details.finding") && unwrap(event.target), true);
const aboutNodes = new Map();
const about = (finding) => {
  const { subject } = finding.dataset;
  if (!aboutNodes.has(subject)) aboutNodes.set(subject, nodesOf(graph, subject));
  return aboutNodes.get(subject);
};
// The namespace of the subject, and those that the finding names beside it.
const OF_CLUSTER = ["user", "group", "node", "persistentvolume", "clusterrole", "clusterrolebinding", "certificatesigningrequest", "cluster"];
function namespacesOf(finding) {
  const [kind, namespace] = finding.dataset.subject.split("/", 2);
  const more = finding.dataset.namespaces?.split("\n") ?? [];
  return OF_CLUSTER.includes(kind) ? more : [namespace, ...more];
}
const findingsOn = (n) => findings.filter((finding) => about(finding)?.has(n));

// The nodes that the text of the filter for nodes means: those of this name, else those with it in their name. Null: all.
let nodesKept = null;
function nodesMatching(text) {
  if (!text) return null;
  const exact = graph.find(NODE, text);
  if (exact >= 0) return new Set([exact]);
  const kept = new Set();
  for (let n = 0; n < graph.size[NODE]; n++) if (graph.label(n).toLowerCase().includes(text.toLowerCase())) kept.add(n);
  return kept;
}
const meets = (a, b) => [...a].some((x) => b.has(x));
const severities = (filter) => (filter.severity ? new Set(filter.severity.split(",")) : null);
const ofRule = (finding, filter) => (!filter.rule || finding.dataset.rule === filter.rule) && (severities(filter)?.has(finding.dataset.severity) ?? true);

let nodesWithFinding = null;
const lists = {
  findings: new List(sections.get("findings"), ["finding"], ofElements(findings, (i) => textOf(findings[i]), (i, filter) => {
    const finding = findings[i];
    return ofRule(finding, filter) && (!filter.ns || namespacesOf(finding).includes(filter.ns)) && (!nodesKept || meets(about(finding) ?? [], nodesKept));
  })),
  nodes: new List(sections.get("nodes"), ["node"], nodeTable(graph, sections.get("nodes"), (n, filter) =>
    (!nodesKept || nodesKept.has(n)) && (!filter.ns || graph.groupsOn[n].some((g) => graph.groups[g].namespace === filter.ns)) && (nodesWithFinding?.has(n) ?? true), () => lists.nodes)),
  workloads: new List(sections.get("workloads"), ["workload"], workloadTable(graph, sections.get("workloads"), (g, filter) =>
    (!filter.ns || graph.groups[g].namespace === filter.ns) && (!nodesKept || Array.from(graph.podsOf(g)).some((p) => nodesKept.has(graph.podNode[p]))))),
};
const ways = [...document.querySelectorAll("article.way")];
if (ways.length > 8) lists.ways = new List(el("div", {}), ["path"], ofElements(ways, () => "", () => true), 6);
lists.ways?.filter({});
ways.at(-1)?.after(lists.ways?.more ?? "");

const form = byId("filters");
const input = { q: byId("f-q"), ns: byId("f-ns"), node: byId("f-node"), rule: byId("f-rule") };
for (const rule of [...new Set(findings.map((f) => f.dataset.rule))].sort()) input.rule.append(el("option", { value: rule }, rule));
for (const severity of ["critical", "high", "medium", "low", "info"]) {
  if (!findings.some((f) => f.dataset.severity === severity)) continue;
  byId("f-severity").append(el("label", {}, el("input", { type: "checkbox", value: severity }), el("b", { class: "sev " + severity }, severity[0].toUpperCase() + severity.slice(1))));
}
byId("l-ns").append(...graph.namespaces.map((ns) => el("option", { value: ns })));
// A list of all nodes would be long: only what matches what is typed.
const offerNodes = () => {
  const some = [...(nodesMatching(input.node.value.trim()) ?? [])].slice(0, 20);
  byId("l-node").replaceChildren(...some.map((n) => el("option", { value: graph.label(n) })));
};

function readFilters() {
  const query = Object.fromEntries(Object.entries(input).map(([key, field]) => [key, field.value.trim()]));
  query.severity = [...byId("f-severity").querySelectorAll(":checked")].map((box) => box.value).join(",");
  return query;
}

function showFilters(query) {
  for (const [key, field] of Object.entries(input)) if (field !== document.activeElement || field.tagName === "SELECT") field.value = query[key] ?? "";
  const chosen = severities(query);
  for (const box of byId("f-severity").querySelectorAll("input")) box.checked = chosen?.has(box.value) ?? false;
}

let waiting = 0;
const filtersChanged = (isTyping) => {
  clearTimeout(waiting);
  waiting = setTimeout(() => go(write(current.path, readFilters()), isTyping), isTyping ? 160 : 0);
};
form.addEventListener("input", (event) => {
  if (event.target === input.node) offerNodes();
  filtersChanged(event.target.type !== "checkbox" && event.target.tagName !== "SELECT");
});
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("reset", () => setTimeout(() => go(write(current.path, {}), false)));

// ---- views -----------------------------------------------------------------------------------------------------------

const nodePage = new NodePage(graph, sections.get("node-page"), meanings, wayTitle, findingsOn);
let overview = null;
byId("picture-all").hidden = !graph.size[NODE];
let current = { path: "", query: {} };
let isOwnMove = false;
const positions = new Map();

// Goes to a fragment. Typing replaces the entry of the history, everything else adds one.
function go(hash, replace) {
  if (hash === location.hash) return;
  isOwnMove = true;
  positions.set(current.hash, scrollY);
  if (replace) location.replace(hash);
  else location.hash = hash;
}

function drawOverview() {
  if (overview || !graph.size[NODE]) return;
  const all = Array.from({ length: graph.size[NODE] }, (_, n) => n);
  overview = new Picture(new Columns(graph, all, wayTitle, (i) => meanings(i)[0]), "What all nodes reach", (value, column) => nodePage.describe(value, column, null));
  byId("picture-all").append(overview.element);
}

function filterView(name, query) {
  nodesKept = nodesMatching(query.node);
  nodesWithFinding = null;
  if (name === "nodes" && (query.rule || query.severity)) {
    nodesWithFinding = new Set(findings.filter((f) => ofRule(f, query)).flatMap((f) => [...(about(f) ?? [])]));
  }
  byId("f-count").textContent = lists[name].filter(query);
}

function route() {
  const { path, query } = parse();
  const before = current;
  let view = path, target = null;
  let entry = -1;
  if (path.startsWith("node/")) {
    view = "node-page";
    nodePage.show(path.slice(5), query);
  } else if (path.startsWith("w/")) {
    view = "workloads";
    entry = Number(path.slice(2));
  } else if (!VIEWS.includes(path)) {
    target = byId(path);
    view = nameOfView(target?.closest("section.view")) ?? "overview";
  }
  for (const [name, section] of sections) section.classList.toggle("shown", name === view);
  sections.get("node-page").hidden = view !== "node-page";
  root.classList.add("ready");
  // The page answers before the picture is there.
  if (view === "overview") requestAnimationFrame(() => setTimeout(drawOverview));
  const isFiltered = FILTERED.includes(view);
  form.hidden = !isFiltered;
  form.dataset.view = view;
  if (isFiltered) {
    if (target) entry = findings.indexOf(target.closest("details.finding"));
    const isOne = entry >= 0;
    showFilters(isOne ? {} : query);
    filterView(view, isOne ? {} : query);
    if (isOne) {
      lists[view].reveal(entry);
      target = byId(path);
    }
    if (target?.tagName === "DETAILS") {
      unwrap(target);
      target.open = true;
    }
  }
  const kept = isFiltered && !target ? query : Object.fromEntries(Object.entries(readFilters()).filter(() => isFiltered));
  for (const link of document.querySelectorAll("header.top nav a")) {
    const name = link.hash.slice(1).split("?")[0];
    if (isFiltered && FILTERED.includes(name)) link.href = write(name, kept);
    if (name === view || (view === "node-page" && name === "nodes")) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  current = { path: isFiltered ? view : path, query, hash: location.hash, view };
  settle(before, view, target, path);
}

// Where the reader is after a change of the view: at what was asked for, at the heading, or where they were when they come back.
function settle(before, view, target, path) {
  const heading = sections.get(view).querySelector("h1, h2");
  const title = heading?.textContent;
  document.title = shown((title && view !== "overview" ? title + " · " : "") + (byId("h-overview")?.textContent ?? ""));
  const isNew = before.view !== view || before.path !== current.path;
  if (target) {
    target.scrollIntoView({ block: "start" });
    focusOn(target.querySelector("summary, a, h3") ?? target);
  } else if (isNew) {
    // The browser has gone to the element of this name already.
    if (before.view) focusOn(heading);
    scrollTo(0, isOwnMove ? 0 : positions.get(location.hash) ?? 0);
  } else if (view === "node-page" && before.view === view && path === before.path) {
    byId("h-path")?.scrollIntoView({ block: "start" });
  }
  isOwnMove = false;
}

function focusOn(element) {
  if (!element) return;
  if (element.tabIndex < 0) element.tabIndex = -1;
  element.focus({ preventScroll: true });
}

// ---- keys ------------------------------------------------------------------------------------------------------------

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.matches?.("input, select, textarea");
  if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    if (current.view === "node-page") nodePage.target?.focus();
    else {
      if (!FILTERED.includes(current.view)) {
        go("#findings", false);
        route();
      }
      input.q.focus();
    }
  } else if (event.key === "Escape" && event.target.closest?.("#filters")) {
    if (event.target.value && event.target.type !== "checkbox") {
      event.target.value = "";
      filtersChanged(false);
    } else focusOn(sections.get(current.view).querySelector("h2"));
  } else if (event.key === "Escape") {
    const open = event.target.closest?.("details[open]");
    if (!open) return;
    open.open = false;
    open.querySelector("summary").focus();
  }
});
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href^='#']");
  if (!link) return;
  if (link.classList.contains("skip")) {
    event.preventDefault();
    focusOn(sections.get(current.view).querySelector("h1, h2"));
  } else {
    isOwnMove = true;
    positions.set(current.hash, scrollY);
  }
});
addEventListener("hashchange", route);
// On paper everything is unfolded, and pictures have the width of the paper.
let folded = [];
addEventListener("beforeprint", () => {
  folded = findings.filter((finding) => !finding.open);
  for (const finding of findings) unwrap(finding);
  for (const finding of folded) finding.open = true;
  root.classList.add("printing");
  for (const list of Object.values(lists)) {
    list.source.isPrinted = true;
    list.show(Infinity);
  }
  drawOverview();
  for (const picture of [overview, nodePage.picture]) picture?.lines();
});
addEventListener("afterprint", () => {
  for (const finding of folded) finding.open = false;
  root.classList.remove("printing");
  for (const list of Object.values(lists)) {
    list.source.isPrinted = false;
    list.show();
  }
  for (const picture of [overview, nodePage.picture]) picture?.lines();
});
// Without scripts these links lead to the whole list.
for (const link of document.querySelectorAll("a[data-query]")) link.href = link.hash + "?" + link.dataset.query;
history.scrollRestoration = "manual";
route();
