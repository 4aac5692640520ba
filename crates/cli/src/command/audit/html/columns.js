// The five columns of the picture: which boxes there are, and which lead to which. No elements here.
//
// Each column holds values (nodes, pods, objects, rights, ends). A value has a trail of keys, from the largest box that it is
// counted in to the smallest. A box unfolds if its key is in `open`.

const SHOWN_FIRST = 7;
const KIND_MANY = ["Nodes", "Pods", "Service accounts", "Users", "Groups", "Cluster admin", "Secrets", "ConfigMaps",
  "Volume claims", "Volumes", "Resource claims"];
const KIND_ONE = ["Node", "Pod", "Service account", "User", "Group", "", "Secret", "ConfigMap", "Volume claim", "Volume", "Resource claim"];

class Column {
  // trail(value, depth): [key, kind, label, rank] of the box in which the value is counted at this depth, or null. Boxes of lower
  // rank come first, then those with more in them.
  constructor(title, unit, values, trail) {
    Object.assign(this, { title, unit, values, trail });
  }

  // Makes the boxes. limits: how many children of a box are shown.
  lay(open, limits) {
    const root = { key: this.title, depth: -1, children: new Map(), count: 0 };
    this.places = new Map();
    for (const value of this.values) {
      let box = root;
      for (let depth = 0, at; (at = this.trail(value, depth)); depth++) {
        const [key, kind, label, rank] = at;
        let child = box.children.get(key);
        if (!child) {
          const path = box.key + "\n" + key, unfolds = this.trail(value, depth + 1) !== null;
          child = { key: path, parent: box, depth, kind, label, rank: rank ?? 0, count: 0, children: new Map(), value: null,
            unit: this.unit, unfolds, isOpen: unfolds && open.has(path) };
          box.children.set(key, child);
        }
        child.count++;
        box = child;
        if (!child.isOpen) break;
      }
      // A box of one value stands for it.
      box.value = box.count === 1 ? value : null;
      this.places.set(value, box);
    }
    this.boxes = [];
    this.show(root, limits);
    return this;
  }

  show(parent, limits) {
    const children = [...parent.children.values()].sort((a, b) =>
      a.rank - b.rank || b.count - a.count || (a.label < b.label ? -1 : a.label > b.label ? 1 : 0));
    let limit = limits.get(parent.key) ?? SHOWN_FIRST;
    if (children.length <= limit + 1) limit = children.length;
    for (const child of children.slice(0, limit)) {
      this.boxes.push(child);
      if (child.isOpen) this.show(child, limits);
    }
    const rest = children.slice(limit);
    if (!rest.length) return;
    const count = rest.reduce((sum, child) => sum + child.count, 0);
    const more = { key: parent.key + "\n…", parent, depth: parent.depth + 1, kind: "", label: number(rest.length) + " more", count, unit: this.unit,
      isMore: true, unfolds: true, isOpen: false, limit: limit + 24, next: rest[0].key, children: new Map() };
    for (const child of rest) child.hiddenIn = more;
    this.boxes.push(more);
  }

  // The box in which a value is seen now.
  boxOf(value) {
    let box = this.places.get(value);
    for (let at = box; at && at.depth >= 0; at = at.parent) if (at.hiddenIn) box = at.hiddenIn;
    return box;
  }
}

class Columns {
  constructor(graph, nodes, wayTitle, stepTitle) {
    Object.assign(this, { graph, nodes, wayTitle, stepTitle });
    this.search = graph.search(nodes);
    this.takeDirect();
    this.takeRights();
    this.takeEnds();
    this.columns = [this.nodeColumn(), this.podColumn(), this.objectColumn(), this.rightColumn(), this.endColumn()];
  }

  takeDirect() {
    const { graph } = this;
    this.pods = this.nodes.flatMap((n) => Array.from(graph.podsOn(n)));
    this.groups = [...new Set(this.nodes.flatMap((n) => graph.groupsOn[n]))];
    this.direct = new Set();
    for (const g of this.groups) {
      const group = graph.groups[g];
      if (group.flags & (TOKEN_TO_NODE | TOKEN)) this.direct.add(group.account);
      for (const object of group.objects) this.direct.add(object);
    }
    this.beside = []; // Steps from a node that lead past its pods: [node, vertex].
    this.own = new Map(); // Users that the nodes are, and which nodes.
    this.machines = []; // Steps from a node to admin: its control plane.
    for (const n of this.nodes) {
      for (const { number, to, grant } of graph.extraOf[n]) {
        graph.eachMember(to, (id) => {
          if (number === 4) this.own.set(id, [...(this.own.get(id) ?? []), n]);
          else if (id === graph.admin) this.machines.push({ number, from: n, grant, to: [id] });
          else {
            this.direct.add(id);
            this.beside.push([n, id]);
          }
        });
      }
    }
  }

  // The edges by which the direct objects and the nodes themselves lead on: one right for each grant and kind of edge.
  takeRights() {
    const { graph } = this;
    const rights = new Map();
    for (const from of [...this.direct, ...this.own.keys()]) {
      for (const row of graph.edgesOf(from)) {
        const { number, to, grant } = graph.edges[row];
        const key = number + " " + from + " " + grant;
        if (!rights.has(key)) rights.set(key, { number, from, grant, to: [] });
        rights.get(key).to.push(to);
      }
    }
    this.rights = [...rights.values(), ...this.machines];
  }

  // What the rights lead to in the end. Of one node: what it does not reach by itself.
  takeEnds() {
    const { graph, search } = this;
    const pods = new Set(this.pods), nodes = new Set(this.nodes);
    const isBesides = (id) => {
      const type = graph.typeOf(id);
      if (type === POD) return !pods.has(id - graph.start[POD]);
      return !this.direct.has(id) && !nodes.has(id) && !this.own.has(id);
    };
    const ends = new Set(search.order.filter(isBesides));
    this.takeWays();
    if (nodes.size > 1) {
      // What one node reaches by itself is an end for another.
      for (const to of new Set(this.rights.flatMap((right) => right.to))) graph.eachMember(to, (id) => ends.add(id));
      for (const { steps, start } of this.ways) for (const { to } of steps.slice(start)) ends.add(to);
    }
    if (search.word !== "no") ends.add(graph.admin);
    this.ends = [...ends].sort((a, b) => a - b);
  }

  // A shortest path to admin for each end of paths. start: the first step that a right makes.
  takeWays() {
    const { graph } = this;
    const first = new Map();
    for (const n of this.nodes) if (graph.counts[n].way && !first.has(graph.counts[n].way)) first.set(graph.counts[n].way, n);
    this.ways = [...first.values()].slice(0, 12).map((n) => {
      const steps = graph.search([n]).path(graph.admin);
      const start = steps.findIndex(({ from, to }) => to === graph.admin || this.direct.has(from) || this.own.has(from));
      return { node: n, steps, start: start < 0 ? steps.length : start };
    });
  }

  nodeColumn() {
    const { graph } = this;
    const one = (n) => ["n" + n, "Node", graph.label(n)];
    if (this.nodes.length === 1) return new Column("Node", ["node", "nodes"], this.nodes, (n, depth) => (depth ? null : one(n)));
    return new Column("Nodes", ["node", "nodes"], this.nodes, (n, depth) => {
      if (depth) return depth > 1 ? null : one(n);
      const { admin, way } = graph.counts[n];
      return ["a" + admin + "." + way, way ? "Path " + way + (admin === 1 ? ", conditional" : "") : "", way ? this.wayTitle(way) : "No path to admin", -admin];
    });
  }

  podColumn() {
    const { graph } = this;
    return new Column("Pods", ["pod", "pods"], this.pods, (p, depth) => {
      const group = graph.groups[graph.podGroup[p]];
      if (depth === 0) return [group.namespace, "Namespace", group.namespace];
      if (depth === 1) return [group.kind + "/" + group.name, group.kind === "Node" ? "static Pod" : group.kind, group.name];
      return depth > 2 ? null : ["p" + p, "Pod", graph.vertexName[graph.start[POD] + p] ?? "(name left out)"];
    });
  }

  // By type, namespace and name.
  vertexTrail(id, depth) {
    const { graph } = this, type = graph.typeOf(id);
    if (id === graph.admin) return depth ? null : ["admin", "", "Cluster admin", -9];
    if (depth === 0) return ["t" + type, "", KIND_MANY[type], { [NODE]: -3, [POD]: -2, [ACCOUNT]: -1 }[type] ?? 0];
    const isNamespaced = graph.vertexSpace[id] >= 0;
    if (depth === 1 && isNamespaced) return [graph.namespaceOf(id), "Namespace", graph.namespaceOf(id)];
    return depth > (isNamespaced ? 2 : 1) ? null : ["v" + id, KIND_ONE[type], graph.vertexName[id] ?? "(name left out)"];
  }

  objectColumn() {
    return new Column("Accounts, Secrets, volumes", ["object", "objects"], [...this.direct], (id, depth) => this.vertexTrail(id, depth));
  }

  rightColumn() {
    const { graph } = this;
    return new Column("Rights", ["grant", "grants"], this.rights, (right, depth) => {
      // Rights that make somebody admin come first.
      if (depth === 0) return ["E" + right.number, "E" + right.number, this.stepTitle(right.number), right.to.includes(graph.admin) ? -1 : 0];
      const grant = graph.grants[right.grant];
      const where = grant ? (grant.namespace ? grant.namespace + "/" : "") + grant.binding : graph.label(right.from);
      return depth > 1 ? null : ["g" + right.from + "." + right.grant, grant?.kind ?? KIND_ONE[graph.typeOf(right.from)], where];
    });
  }

  endColumn() {
    return new Column("In the end", ["object", "objects"], this.ends, (id, depth) => this.vertexTrail(id, depth));
  }

  // Lays out the boxes, and says which lead to which: Map of box to Set of boxes. Boxes of the last column that only others of it
  // lead to have `later` steps.
  lay(open, limits) {
    const { graph } = this;
    const [nodes, pods, objects, rights, ends] = this.columns;
    for (const column of this.columns) column.lay(open, limits);
    const links = new Map(), later = new Map();
    const add = (into, from, to) => {
      if (!from || !to || from === to) return;
      if (!into.has(from)) into.set(from, new Set());
      into.get(from).add(to);
    };
    const done = new Set();
    for (const p of this.pods) {
      const box = pods.boxOf(p), g = graph.podGroup[p];
      add(links, nodes.boxOf(graph.podNode[p]), box);
      const key = box.key + "\n" + g;
      if (done.has(key)) continue;
      done.add(key);
      const group = graph.groups[g];
      if (this.direct.has(group.account)) add(links, box, objects.boxOf(group.account));
      for (const object of group.objects) add(links, box, objects.boxOf(object));
    }
    for (const [n, id] of this.beside) add(links, nodes.boxOf(n), objects.boxOf(id));
    for (const right of this.rights) {
      const box = rights.boxOf(right);
      if (right.from < graph.size[NODE]) add(links, nodes.boxOf(right.from), box);
      for (const n of this.own.get(right.from) ?? []) add(links, nodes.boxOf(n), box);
      add(links, objects.boxOf(right.from), box);
      for (const to of right.to) {
        const key = box.key + "\n" + to;
        if (done.has(key)) continue;
        done.add(key);
        graph.eachMember(to, (id) => add(links, box, ends.boxOf(id)));
      }
    }
    const opened = new Set([...links.values()].flatMap((to) => [...to]));
    for (const id of this.ends) {
      const box = ends.boxOf(id);
      const from = id === graph.admin && this.search.conditional ? this.search.conditional[1] : this.search.from[id];
      if (!opened.has(box)) add(later, ends.boxOf(from) ?? objects.boxOf(from), box);
    }
    return { links, later, strong: this.strong(add) };
  }

  // The lines of the shortest paths to admin.
  strong(add) {
    const { graph } = this, strong = new Map();
    const [nodes, pods, objects, rights, ends] = this.columns;
    for (const { node, steps, start } of this.ways) {
      const right = steps[start];
      if (!right) continue;
      let at = nodes.boxOf(node);
      const go = (box) => {
        add(strong, at, box);
        at = box ?? at;
      };
      // The kubelet asks for tokens on behalf of a pod: the line goes through it.
      const through = Array.from(graph.podsOn(node)).find((p) => graph.groups[graph.podGroup[p]].account === right.from);
      if (through !== undefined) go(pods.boxOf(through));
      go(objects.boxOf(right.from));
      go(rights.boxOf(this.rights.find((r) => r.number === right.number && r.from === right.from && r.grant === right.grant)));
      for (const { to } of steps.slice(start)) go(ends.boxOf(to));
    }
    return strong;
  }
}
