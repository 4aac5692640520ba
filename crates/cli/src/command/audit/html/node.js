// The page of one node: its numbers, the path to something, the picture, and the findings about it.

const ADMIN_WORD = ["No", "Conditional", "Yes"];
const ADMIN_CLASS = ["no", "conditional", "yes"];
const adminBadge = (i) => el("b", { class: "adm " + ADMIN_CLASS[i] }, ADMIN_WORD[i]);

function grantWords(grant) {
  if (!grant) return null;
  const binding = grant.namespace ? grant.namespace + "/" + grant.binding : grant.binding;
  return el("span", { class: "grant" }, nameOf(grant.kind), " ", nameOf(binding), " to ", nameOf(grant.roleKind), " ", nameOf(grant.role),
    grant.rule < 0 ? ", rule to be added by aggregation" : ", rule " + grant.rule, grant.from && [" from ", nameOf(grant.from)], ": ", el("code", {}, nameOf(grant.text)));
}

// The steps of a path, each with its meaning.
function pathSteps(graph, steps, meanings) {
  const kind = (id) => KIND_ONE[graph.typeOf(id)] || "Cluster admin";
  const first = el("li", { class: "start" }, el("span", { class: "k" }, kind(steps[0].from)), " ", nameOf(graph.label(steps[0].from)));
  return el("ol", { class: "chain path" }, first, steps.map(({ number: n, to, grant }) => {
    const [title, meaning] = meanings(n);
    return el("li", {}, el("a", { class: "edge", href: "#step/E" + n, title: meaning }, "E" + n), " ", el("span", { class: "k" }, kind(to)), " ",
      to === graph.admin ? el("bdi", {}, "everything in the cluster") : nameOf(graph.label(to)),
      el("span", { class: "why" }, title, n === CONDITIONAL ? " (conditional). " : ". ", meaning), grantWords(graph.grants[grant]));
  }));
}

class NodePage {
  constructor(graph, section, meanings, wayTitle, findingsOn) {
    Object.assign(this, { graph, section, meanings, wayTitle, findingsOn, node: -1 });
  }

  show(name, query) {
    const { graph } = this, n = graph.find(NODE, name);
    if (n < 0) {
      this.node = -1;
      this.section.replaceChildren(el("h1", { id: "h-node", tabindex: "-1" }, "Node ", nameOf(name)), el("p", { class: "none" }, "The state has no node of this name."));
      return;
    }
    if (n !== this.node) this.build(n);
    this.showPath(query.to ?? "admin");
  }

  build(n) {
    const { graph } = this;
    this.node = n;
    this.search = graph.search([n]);
    const c = graph.counts[n], name = graph.label(n);
    const made = this.search.counts();
    const differs = Object.entries(made).some(([key, value]) => value !== c[key]);
    this.target = el("input", { id: "p-to", type: "search", spellcheck: "false", autocomplete: "off", placeholder: "secret/shop/db", "aria-describedby": "p-help" });
    this.hits = el("ul", { class: "hits", "aria-label": "Matching objects" });
    this.way = el("div", { class: "way", role: "status" });
    this.target.addEventListener("input", () => this.suggest());
    this.target.addEventListener("keydown", (event) => this.key(event));
    this.hits.addEventListener("keydown", (event) => this.key(event));
    this.picture = new Picture(new Columns(graph, [n], this.wayTitle, (i) => this.meanings(i)[0]), "What node " + shown(name) + " reaches", (value, column) => this.describe(value, column, (subject) => this.link(subject)));
    const findings = this.findingsOn(n);
    this.section.replaceChildren(...[
      el("p", { class: "crumb" }, el("a", { href: "#nodes" }, "Nodes")),
      el("h1", { id: "h-node", tabindex: "-1" }, "Node ", nameOf(name)),
      el("p", { class: "verdict small" }, { yes: "This node leads to cluster admin.", conditional: "This node leads to cluster admin if somebody else acts.", no: "This node does not lead to cluster admin." }[this.search.word]),
      differs && el("p", { class: "note" }, "The picture and the numbers of this page differ. Rely on the numbers, and report this as an error of Portcullis."),
      el("div", { class: "pair" }, el("div", {}, el("h2", {}, "Reach"), this.numbers(c)), el("div", {}, el("h2", { id: "h-path" }, "Show me the path"),
      el("div", { class: "finder" }, el("label", { for: "p-to" }, "From this node to"), this.target, el("a", { class: "button", href: this.link("admin") }, "Cluster admin"),
        el("p", { id: "p-help", class: "hint" }, "Type a part of a name, for example secret/shop or node. ")),
      this.hits, this.way)),
      el("h2", {}, "From this node to everything"), this.picture.element,
      el("h2", {}, "Findings about this node"),
      findings.length ? el("ul", { class: "brief" }, findings.slice(0, 60).map((f) => el("li", {}, el("a", { href: "#" + f.id }, f.querySelector(".sev").cloneNode(true), " ", el("span", { class: "id" }, f.dataset.rule), " ", nameOf(f.dataset.subject)))))
        : el("p", { class: "none" }, "None."),
      el("p", {}, el("a", { href: "#findings?node=" + fragment(name) }, "All findings about this node"), " · ", el("a", { href: "#workloads?node=" + fragment(name) }, "Its workloads, with what each reads")),
    ].filter(Boolean));
  }

  numbers(c) {
    const row = (what, first, end) => el("tr", {}, el("th", { scope: "row" }, what), el("td", {}, first == null ? "–" : number(first)), el("td", {}, end == null ? "–" : number(end)));
    return el("table", { class: "change" }, el("thead", {}, el("tr", {}, ...["", "By itself", "In the end"].map((h) => el("th", { scope: "col" }, h)))),
      el("tbody", {}, el("tr", {}, el("th", { scope: "row" }, "Cluster admin"), el("td", {}, "–"), el("td", {}, adminBadge(c.admin), c.way > 0 && [" ", el("a", { href: "#way/" + c.way }, "path " + c.way)])),
        row("Other nodes", null, c.endNodes), row("Pods", c.pods, c.endPods), row("of these on other nodes", null, c.endOfOthers),
        row("Secrets", c.secrets, c.endSecrets), row("ConfigMaps", c.configmaps, c.endConfigmaps), row("Volumes", c.volumes, null), row("Service accounts", c.accounts, c.endAccounts)));
  }

  link(subject) {
    return "#node/" + fragment(this.graph.label(this.node)) + "?to=" + fragment(subject);
  }

  // What a box of the picture stands for. Without a link for paths: in the picture of all nodes.
  describe(value, column, link) {
    const { graph } = this;
    if (column === 0) return [el("span", { class: "k" }, "Node"), " ", nameOf(graph.label(value)), " ", el("a", { href: "#node/" + fragment(graph.label(value)) }, "Open its page")];
    if (column === 3) return [el("a", { class: "edge", href: "#step/E" + value.number }, "E" + value.number), " ", el("span", { class: "k" }, KIND_ONE[graph.typeOf(value.from)]), " ", nameOf(graph.label(value.from)), " ", grantWords(graph.grants[value.grant]) ?? this.meanings(value.number)[1]];
    const id = column === 1 ? graph.start[POD] + value : value;
    return [el("span", { class: "k" }, KIND_ONE[graph.typeOf(id)]), " ", nameOf(graph.label(id)), " ", link && el("a", { href: link(graph.subject(id)) }, "Show me the path")];
  }

  showPath(subject) {
    const { graph } = this, id = graph.findSubject(subject);
    const steps = id < 0 ? [] : this.search.path(id);
    const what = subject === "admin" ? "cluster admin" : subject;
    this.target.value = "";
    this.hits.replaceChildren();
    if (steps.length) this.way.replaceChildren(el("p", { class: "lead" }, "The shortest path to ", nameOf(what), ", ", plural(steps.length, "step"), ":"), pathSteps(graph, steps, this.meanings));
    else this.way.replaceChildren(el("p", { class: "none" }, id === this.node ? "This is the node itself." : ["There is no path from this node to ", nameOf(what), "."]));
  }

  suggest() {
    const text = this.target.value.trim().toLowerCase(), { graph } = this;
    if (!text) return this.hits.replaceChildren();
    const hits = [];
    let more = 0;
    for (const id of this.search.order) {
      const subject = graph.subject(id);
      if (!subject.toLowerCase().includes(text)) continue;
      if (hits.length < 12) hits.push(el("li", {}, el("a", { href: this.link(subject) }, nameOf(subject))));
      else more++;
    }
    if (more) hits.push(el("li", { class: "hint" }, number(more) + " more. Type more of the name."));
    if (!hits.length) hits.push(el("li", { class: "hint" }, "This node reaches nothing of this name."));
    this.hits.replaceChildren(...hits);
  }

  // Down and up move through the matches, Enter takes the first, Escape clears.
  key(event) {
    const links = [...this.hits.querySelectorAll("a")], at = links.indexOf(document.activeElement);
    if (event.key === "ArrowDown") links[at + 1]?.focus();
    else if (event.key === "ArrowUp") (links[at - 1] ?? this.target).focus();
    else if (event.key === "Enter" && at < 0) links[0]?.click();
    else if (event.key === "Escape") {
      this.target.value = "";
      this.suggest();
      this.target.focus();
    } else return;
    if (event.key !== "Enter" || at < 0) event.preventDefault();
    event.stopPropagation();
  }
}
