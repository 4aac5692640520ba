// The graph: who leads to what (section 5 of the rules), and the search from a node.
//
// The search is that of `portcullis reach`: outwards from the node, one step a level, and of equal steps the least
// (AU-64, AU-65). The page compares its counts with those that the writer put in.

const TYPES = ["node", "pod", "serviceaccount", "user", "group", "admin", "secret", "configmap",
  "persistentvolumeclaim", "persistentvolume", "resourceclaim"];
const [NODE, POD, ACCOUNT, USER, GROUP, ADMIN, SECRET, CONFIGMAP, CLAIM, VOLUME, RESOURCECLAIM] = TYPES.keys();
// Flags of a group of equal pods.
const TOKEN_TO_NODE = 1, TOKEN = 2, ESCAPES = 4, MIRROR = 8, HAS_CLAIM = 16;
const CONDITIONAL = 26, NEW_VOLUME = 27;
const COUNTS = ["admin", "way", "pods", "secrets", "configmaps", "volumes", "accounts",
  "endNodes", "endPods", "endOfOthers", "endSecrets", "endConfigmaps", "endAccounts"];

// Front coding: how much a name shares with the one before, and the rest. -k: k names are left out.
function names(coded) {
  const out = [];
  let last = "";
  for (let i = 0; i < coded.length; ) {
    if (coded[i] < 0) {
      for (let k = coded[i++]; k < 0; k++) out.push(null);
    } else {
      last = last.slice(0, coded[i]) + coded[i + 1];
      out.push(last);
      i += 2;
    }
  }
  return out;
}

// Runs: the gap after the run before, and the length.
function eachInRuns(runs, take) {
  for (let i = 0, at = 0; i < runs.length; i += 2) {
    at += runs[i];
    for (const end = at + runs[i + 1]; at < end; at++) take(at);
  }
}

function inRuns(runs) {
  const out = [];
  eachInRuns(runs, (id) => out.push(id));
  return out;
}

// For each key from 0 to size - 1, the numbers of the rows with this key.
function index(keys, size) {
  const start = new Int32Array(size + 1);
  for (const key of keys) if (key >= 0) start[key + 1]++;
  for (let i = 0; i < size; i++) start[i + 1] += start[i];
  const at = start.slice(), rows = new Int32Array(start[size]);
  keys.forEach((key, row) => { if (key >= 0) rows[at[key]++] = row; });
  return (key) => rows.subarray(start[key], start[key + 1]);
}

class Graph {
  constructor(data) {
    this.strings = names(data.strings);
    this.namespaces = names(data.namespaces);
    this.takeNames(data.names);
    this.podNode = data.podNode;
    this.podGroup = data.podGroup;
    this.sets = data.sets;
    const word = (i) => this.strings[i];
    this.groups = data.groups.map(([kind, space, name, account, flags, objects]) => ({
      kind: word(kind), namespace: this.namespaces[space] ?? "", name: word(name), account, flags, objects: inRuns(objects),
    }));
    this.grants = data.grants.map(([kind, space, binding, roleKind, role, rule, text, from]) => ({
      kind: word(kind), namespace: word(space), binding: word(binding), roleKind: word(roleKind), role: word(role), rule,
      text: word(text), from: word(from),
    }));
    this.podsOn = index(this.podNode, this.size[NODE]);
    this.podsOf = index(this.podGroup, this.groups.length);
    this.groupsOn = Array.from({ length: this.size[NODE] }, (_, n) => [...new Set(Array.from(this.podsOn(n), (p) => this.podGroup[p]))]);
    this.takeEdges(data);
    this.creators = new Set(inRuns(data.creators));
    this.withClaim = this.groupsOn.map((groups) => groups.some((g) => this.groups[g].flags & HAS_CLAIM));
    this.counts = Array.from({ length: this.size[NODE] }, (_, n) =>
      Object.fromEntries(COUNTS.map((key, i) => [key, data.counts[n * COUNTS.length + i]])));
    this.searches = new Map();
    this.byLabel = new Map();
  }

  takeNames(tables) {
    this.start = [];
    this.size = [];
    this.vertexName = [];
    const spaces = [];
    for (const parts of tables) {
      this.start.push(this.vertexName.length);
      for (const [space, coded] of parts) {
        for (const name of names(coded)) {
          this.vertexName.push(name);
          spaces.push(space);
        }
      }
      this.size.push(this.vertexName.length - this.start.at(-1));
    }
    this.vertexSpace = Int32Array.from(spaces);
    this.admin = this.start[ADMIN];
  }

  takeEdges(data) {
    const rows = [];
    for (let i = 0, from = 0; i < data.edges.length; i += 4) {
      from += data.edges[i];
      rows.push({ from, number: data.edges[i + 1], to: data.edges[i + 2], grant: data.edges[i + 3] });
    }
    this.edges = rows;
    const of = index(rows.map((row) => row.from), this.vertexName.length);
    this.edgesOf = (id) => of(id);
    const everyNode = [];
    for (let i = 0; i < data.everyNode.length; i += 3) {
      everyNode.push({ number: data.everyNode[i], to: data.everyNode[i + 1], grant: data.everyNode[i + 2] });
    }
    this.extraOf = Array.from({ length: this.size[NODE] }, () => everyNode.slice());
    for (let i = 0; i < data.nodeEdges.length; i += 4) {
      const [node, number, to, grant] = data.nodeEdges.slice(i, i + 4);
      this.extraOf[node].push({ number, to, grant });
    }
  }

  typeOf(id) {
    let type = TYPES.length - 1;
    while (id < this.start[type]) type--;
    return type;
  }

  namespaceOf(id) {
    return this.namespaces[this.vertexSpace[id]] ?? "";
  }

  // NAMESPACE/NAME or NAME. Names of pods of folded nodes are left out.
  label(id) {
    const name = this.vertexName[id] ?? "(a pod of " + this.groups[this.podGroup[id - this.start[POD]]].name + ")";
    const namespace = this.namespaceOf(id);
    return id === this.admin ? "cluster admin" : namespace ? namespace + "/" + name : name;
  }

  // TYPE/NAMESPACE/NAME, as subjects are written (AU-30).
  subject(id) {
    return id === this.admin ? "admin" : TYPES[this.typeOf(id)] + "/" + this.label(id);
  }

  // The vertex of a type with this label; -1: there is none.
  find(type, label) {
    if (!this.byLabel.has(type)) {
      const ids = new Map();
      for (let id = this.start[type], end = id + this.size[type]; id < end; id++) ids.set(this.label(id), id);
      this.byLabel.set(type, ids);
    }
    return this.byLabel.get(type).get(label) ?? -1;
  }

  // The groups of pods that use an object or an account.
  groupsWith(id) {
    if (!this.users) {
      this.users = new Map();
      this.groups.forEach(({ account, objects }, g) => {
        for (const used of account < 0 ? objects : [account, ...objects]) {
          if (!this.users.has(used)) this.users.set(used, []);
          this.users.get(used).push(g);
        }
      });
    }
    return this.users.get(id) ?? [];
  }

  findSubject(subject) {
    if (subject === "admin") return this.admin;
    const type = TYPES.indexOf(subject.split("/", 1)[0]);
    return type < 0 ? -1 : this.find(type, subject.slice(TYPES[type].length + 1));
  }

  eachMember(to, take) {
    if (to >= 0) take(to);
    else eachInRuns(this.sets[-1 - to], take);
  }

  // Calls take(number, to, grant) for each edge of a vertex.
  eachEdge(id, take) {
    if (id < this.size[NODE]) {
      for (const pod of this.podsOn(id)) take(1, this.start[POD] + pod, -1);
      for (const g of this.groupsOn[id]) {
        const group = this.groups[g];
        if (group.flags & TOKEN_TO_NODE) take(2, group.account, -1);
        for (const object of group.objects) take(3, object, -1);
      }
      for (const { number, to, grant } of this.extraOf[id]) take(number, to, grant);
    } else if (id < this.start[ACCOUNT]) {
      const pod = id - this.start[POD], group = this.groups[this.podGroup[pod]];
      if (group.flags & TOKEN) take(21, group.account, -1);
      if (group.flags & ESCAPES && this.podNode[pod] >= 0) take(22, this.podNode[pod], -1);
    }
    for (const row of this.edgesOf(id)) take(this.edges[row].number, this.edges[row].to, this.edges[row].grant);
  }

  // What a set of nodes reaches in the end.
  search(nodes) {
    const key = nodes.length === 1 ? nodes[0] : "all " + nodes.length;
    if (!this.searches.has(key)) {
      if (this.searches.size > 8) this.searches.delete(this.searches.keys().next().value);
      let claim = nodes.some((n) => this.withClaim[n]);
      let found = new Search(this, nodes, claim);
      if (!claim && found.order.some((id) => id < this.size[NODE] && this.withClaim[id])) found = new Search(this, nodes, true);
      this.searches.set(key, found);
    }
    return this.searches.get(key);
  }
}

class Search {
  constructor(graph, starts, hasClaim) {
    const size = graph.vertexName.length;
    this.graph = graph;
    this.starts = new Set(starts);
    // The level at which a vertex was found, from 1; and the last step of the way to it.
    this.level = new Int32Array(size);
    this.from = new Int32Array(size).fill(-1);
    this.number = new Int32Array(size);
    this.grant = new Int32Array(size).fill(-1);
    this.order = [];
    this.conditional = null;
    for (const start of starts) this.level[start] = 1;
    this.walk(starts.slice(), hasClaim);
    this.word = this.level[graph.admin] ? "yes" : this.conditional ? "conditional" : "no";
  }

  walk(frontier, hasClaim) {
    const { graph, level } = this;
    const seen = new Set();
    for (let depth = 2; frontier.length; depth++) {
      const next = [], sets = new Map();
      let conditional = null;
      const less = (a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2];
      const consider = (to, number, from, grant) => {
        if (level[to] === depth) {
          if (less([number, from, grant], [this.number[to], this.from[to], this.grant[to]]) >= 0) return;
        } else if (level[to]) return;
        else {
          level[to] = depth;
          next.push(to);
        }
        this.number[to] = number;
        this.from[to] = from;
        this.grant[to] = grant;
      };
      for (const from of frontier) {
        graph.eachEdge(from, (number, to, grant) => {
          if (number === NEW_VOLUME && !hasClaim && !graph.creators.has(from)) return;
          if (number === CONDITIONAL) {
            if (!conditional || less([number, from, grant], conditional) < 0) conditional = [number, from, grant];
          } else if (to >= 0) consider(to, number, from, grant);
          else if (!seen.has(to)) {
            // A set is walked once: by the least step to it.
            const kept = sets.get(to);
            if (!kept || less([number, from, grant], kept) < 0) sets.set(to, [number, from, grant]);
          }
        });
      }
      for (const [set, [number, from, grant]] of sets) {
        seen.add(set);
        graph.eachMember(set, (to) => consider(to, number, from, grant));
      }
      this.conditional ??= conditional;
      next.sort((a, b) => a - b);
      for (const id of next) this.order.push(id);
      frontier = next;
    }
  }

  has(id) {
    return this.level[id] > 0;
  }

  // The steps of the way to a vertex: [{ from, number, to, grant }]. Empty: there is none.
  path(to) {
    const steps = [];
    let at = to;
    if (to === this.graph.admin && !this.has(to)) {
      if (!this.conditional) return steps;
      const [number, from, grant] = this.conditional;
      steps.push({ from, number, to, grant });
      at = from;
    }
    while (this.from[at] >= 0) {
      steps.push({ from: this.from[at], number: this.number[at], to: at, grant: this.grant[at] });
      at = this.from[at];
    }
    return steps.reverse();
  }

  counts() {
    const { graph } = this;
    const found = new Array(TYPES.length).fill(0);
    let ofOthers = 0;
    for (const id of this.order) {
      const type = graph.typeOf(id);
      found[type]++;
      if (type === POD && !this.starts.has(graph.podNode[id - graph.start[POD]])) ofOthers++;
    }
    return { admin: { no: 0, conditional: 1, yes: 2 }[this.word], endNodes: found[NODE], endPods: found[POD], endOfOthers: ofOthers,
      endSecrets: found[SECRET], endConfigmaps: found[CONFIGMAP], endAccounts: found[ACCOUNT] };
  }
}
