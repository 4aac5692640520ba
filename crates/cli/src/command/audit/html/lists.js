// The long lists: findings, nodes, workloads. They are filtered as a whole and shown a part at a time.

const FIRST = 100;

class List {
  // source: size; text(i); match(i, filter); show(found, all): shows these of all that were found.
  constructor(section, words, source, first = FIRST) {
    Object.assign(this, { words, source, first, limit: first });
    this.found = Array.from({ length: source.size }, (_, i) => i);
    this.order = this.found;
    this.texts = [];
    this.more = el("button", { type: "button", class: "more" });
    this.more.addEventListener("click", () => {
      this.limit += 4 * this.first;
      this.show();
    });
    section.append(this.more);
  }

  text(i) {
    return (this.texts[i] ??= this.source.text(i).toLowerCase());
  }

  filter(filter) {
    const text = (filter.q ?? "").trim().toLowerCase();
    this.limit = this.first;
    this.found = this.order.filter((i) => (!text || this.text(i).includes(text)) && this.source.match(i, filter));
    this.show();
    return number(this.found.length) + " of " + plural(this.source.size, ...this.words);
  }

  sort(compare) {
    this.order = Array.from({ length: this.source.size }, (_, i) => i).sort((i, j) => compare(i, j) || i - j);
    const found = new Set(this.found);
    this.found = this.order.filter((i) => found.has(i));
    this.show();
  }

  show(limit = this.limit) {
    this.source.show(this.found.slice(0, limit), this.found);
    const rest = this.found.length - limit;
    this.more.hidden = rest <= 0;
    this.more.textContent = "Show " + number(Math.min(rest, 4 * this.first)) + " more of " + number(rest);
  }

  // Makes one entry visible, whatever is filtered and wherever it stands.
  reveal(i) {
    this.filter({});
    const at = this.found.indexOf(i);
    if (at >= this.limit) {
      this.limit = at + 1;
      this.show();
    }
  }
}

// Elements that are in the page.
function ofElements(entries, text, match) {
  return {
    size: entries.length,
    text,
    match,
    show(shown, found) {
      const kept = new Set(found), now = new Set(shown);
      entries.forEach((entry, i) => {
        entry.hidden = !kept.has(i);
        entry.classList.toggle("paged", kept.has(i) && !now.has(i));
      });
    },
  };
}

// A table that is made from the data. row(i, isPrinted): its rows.
function ofTable(section, label, table, size, row, text, match) {
  const body = el("tbody", {});
  table.append(body);
  section.append(el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": label }, table));
  const source = { size, text, match, isPrinted: false, show: (shown) => body.replaceChildren(...shown.flatMap((i) => row(i, source.isPrinted))) };
  return source;
}

const cell = (...content) => el("td", {}, ...content);
const list = (names) => names.flatMap((name, i) => [i > 0 && ", ", nameOf(name)]);

// The heading of a column that sorts. key(i): what is compared.
function sorter(head, getList, key, falls) {
  const button = el("button", { type: "button", class: "sort" }, ...head.childNodes);
  head.replaceChildren(button);
  button.addEventListener("click", () => {
    const falling = (head.getAttribute("aria-sort") !== "descending") === falls || (!falls && head.getAttribute("aria-sort") === "ascending");
    for (const other of head.closest("thead").querySelectorAll("th")) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", falling ? "descending" : "ascending");
    const sign = falling ? -1 : 1;
    getList().sort((i, j) => sign * (key(i) < key(j) ? -1 : key(i) > key(j) ? 1 : 0));
  });
  return head;
}

function nodeTable(graph, section, match, getList) {
  const columns = ["pods", "secrets", "configmaps", "volumes", "accounts", "endNodes", "endOfOthers", "endSecrets", "endAccounts"];
  const titles = ["Pods", "Secrets", "ConfigMaps", "Volumes", "Accounts", "Other nodes", "Pods elsewhere", "Secrets", "Accounts"];
  const head = (title, key, falls, rows) => sorter(el("th", { scope: "col", rowspan: rows }, title), getList, key, falls);
  const table = el("table", { class: "reach" }, el("thead", {},
    el("tr", {}, head("Node", (n) => n, false, 2), head("Cluster admin", (n) => graph.counts[n].admin, true, 2),
      el("th", { scope: "colgroup", colspan: 5 }, "By itself"), el("th", { scope: "colgroup", colspan: 4 }, "In the end")),
    el("tr", {}, columns.map((key, i) => head(titles[i], (n) => graph.counts[n][key], true)))));
  const workloads = (n) => Map.groupBy(graph.groupsOn[n].map((g) => graph.groups[g]), (group) => group.namespace);
  const row = (n, isPrinted) => {
    const c = graph.counts[n], name = graph.label(n);
    const main = el("tr", {}, el("th", { scope: "row" }, el("a", { href: "#node/" + fragment(name) }, nameOf(name))),
      cell(adminBadge(c.admin), c.way > 0 && [" ", el("a", { href: "#way/" + c.way }, "path " + c.way)]), columns.map((key) => cell(number(c[key]))));
    if (!isPrinted) return [main];
    const runs = [...workloads(n)].flatMap(([namespace, groups], i) => [i > 0 && "; ", el("b", {}, nameOf(namespace)), " ", ...list(groups.map((g) => g.name))]);
    return [main, el("tr", { class: "runs" }, el("td", { colspan: 11 }, ...runs.filter(Boolean)))];
  };
  return ofTable(section, "Reach by node", table, graph.size[NODE], row, (n) => graph.label(n) + " " + graph.groupsOn[n].map((g) => graph.groups[g].namespace + "/" + graph.groups[g].name).join(" "), match);
}

function workloadTable(graph, section, match) {
  const table = el("table", { class: "workloads" }, el("thead", {}, el("tr", {}, ["Workload", "Pods", "Nodes", "Service account", "What its node may read"].map((h) => el("th", { scope: "col" }, h)))));
  const kindOf = (group) => (group.kind === "Node" ? "static Pod" : group.kind);
  const name = (id) => graph.vertexName[id];
  const row = (g) => {
    const group = graph.groups[g], pods = graph.podsOf(g);
    const nodes = new Set(Array.from(pods, (p) => graph.podNode[p]).filter((n) => n >= 0));
    const kinds = [...Map.groupBy(group.objects, (id) => graph.typeOf(id))];
    return [el("tr", { id: "w/" + g }, el("th", { scope: "row" }, el("span", { class: "k" }, nameOf(kindOf(group))), " ", nameOf(group.namespace + "/" + group.name),
      group.flags & ESCAPES ? [" ", el("span", { class: "tag" }, "can leave its container")] : null),
      cell(number(pods.length)), cell(number(nodes.size)), cell(group.account < 0 ? el("i", {}, "none") : nameOf(name(group.account)), group.account >= 0 && !(group.flags & TOKEN) && el("i", {}, " no API token")),
      cell(kinds.flatMap(([type, ids], i) => [i > 0 && "; ", el("span", { class: "k" }, KIND_ONE[type]), " ", ...list(ids.map(name))])))];
  };
  const text = (g) => {
    const group = graph.groups[g];
    return [kindOf(group), group.namespace + "/" + group.name, group.account < 0 ? "" : name(group.account), ...group.objects.map(name)].join(" ");
  };
  return ofTable(section, "Workloads", table, graph.groups.length, row, text, match);
}

// Which nodes a finding is about: a set of nodes; null: no certain ones.
function nodesOf(graph, subject) {
  const [kind, ...rest] = subject.split("/");
  const name = rest.join("/"), every = () => new Set(Array(graph.size[NODE]).keys());
  const node = (label) => {
    const id = graph.find(NODE, label);
    return new Set(id < 0 ? [] : [id]);
  };
  const running = (groups) => {
    const found = new Set();
    for (const g of groups) for (const p of graph.podsOf(g)) if (graph.podNode[p] >= 0) found.add(graph.podNode[p]);
    return found;
  };
  if (kind === "node") return node(name);
  if (kind === "user" && name.startsWith("system:node:")) return node(name.slice("system:node:".length));
  if (kind === "cluster" || kind === "group" || subject === "configmap/kube-system/kubelet-config") return every();
  if (kind === "pod") {
    const id = graph.find(POD, name), at = id < 0 ? -1 : graph.podNode[id - graph.start[POD]];
    return new Set(at < 0 ? [] : [at]);
  }
  const type = { serviceaccount: ACCOUNT, secret: SECRET, persistentvolume: VOLUME }[kind];
  if (type !== undefined) return running(graph.groupsWith(graph.find(type, name)));
  if (["user", "clusterrole", "role", "rolebinding", "clusterrolebinding", "certificatesigningrequest", "configmap"].includes(kind)) return null;
  return running([...graph.groups.keys()].filter((g) => {
    const group = graph.groups[g];
    return group.kind.toLowerCase() === kind && group.namespace + "/" + group.name === name;
  }));
}
