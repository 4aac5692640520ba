// The picture: boxes in columns, and lines between them. Arrows move, Enter unfolds, Escape folds.

const SVG = "http://www.w3.org/2000/svg";
const shape = (tag, attributes) => {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
};

function isIn(box, outer) {
  for (let at = box; at; at = at.parent) if (at === outer) return true;
  return false;
}

class Picture {
  // describe(value, column): what is said about a box that stands for one thing, as elements.
  constructor(columns, title, describe) {
    this.columns = columns;
    this.describe = describe;
    this.open = new Set();
    this.limits = new Map();
    this.svg = shape("svg", { "aria-hidden": "true", class: "lines" });
    this.grid = el("div", { class: "columns" });
    this.strip = el("p", { class: "strip", role: "status" }, "Point at a box, or move to it, to see what leads to it and where it leads.");
    this.help = "Arrow keys move between boxes. Enter unfolds a box, Escape folds it.";
    this.element = el("figure", { class: "picture", role: "group", "aria-label": title },
      el("figcaption", {}, el("span", {}, "A number says how many things a box stands for. ", columns.ways.length > 0 && el("span", { class: "legend-strong" }, "A strong line is a shortest path to cluster admin. ")), el("span", { class: "keys" }, this.help)),
      el("div", { class: "stage", tabindex: false }, this.svg, this.grid), this.strip);
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.element.addEventListener("click", (event) => this.click(event.target.closest("button.box")));
    for (const kind of ["pointerover", "focusin"]) this.element.addEventListener(kind, (event) => this.point(event.target.closest("button.box")));
    this.element.addEventListener("pointerleave", () => this.point(this.elements.find((e) => e === document.activeElement)));
    new ResizeObserver(() => this.lines()).observe(this.grid);
    this.unfoldSmall();
    this.draw();
  }

  // One node with few workloads shows them at once.
  unfoldSmall() {
    const pods = this.columns.columns[1];
    if (this.columns.nodes.length > 1 || this.columns.groups.length > 9) return;
    for (const p of pods.values) this.open.add(pods.title + "\n" + pods.trail(p, 0)[0]);
  }

  draw(focus) {
    const { links, later, strong } = this.columns.lay(this.open, this.limits);
    Object.assign(this, { links, later, strong, boxes: new Map(), elements: [] });
    const made = this.columns.columns.map((column) => {
      const part = el("div", { class: "col", role: "group", "aria-label": column.title }, el("h4", {}, column.title));
      if (!column.boxes.length) part.append(el("p", { class: "none" }, "None"));
      for (const box of column.boxes) part.append(this.box(box, column));
      return part;
    });
    // A long column would put the others out of sight.
    this.grid.classList.toggle("tall", this.columns.columns.some((column) => column.boxes.length > 20));
    this.grid.replaceChildren(...made);
    const at = this.elements.find((e) => this.boxes.get(e).key === focus) ?? this.elements[0];
    if (at) at.tabIndex = 0;
    this.lines();
    if (focus !== undefined) at?.focus();
  }

  box(box, column) {
    const isAdmin = box.label === "Cluster admin" && !box.kind && column === this.columns.columns[4];
    const shows = box.count > 1 || box.unfolds;
    const made = el("button", { type: "button", class: "box d" + box.depth + (isAdmin ? " admin " + this.columns.search.word : "") + (box.isMore ? " rest" : ""), tabindex: "-1",
      "aria-expanded": box.unfolds ? String(box.isOpen) : null },
      el("span", { class: "words" }, box.kind && el("span", { class: "k" }, nameOf(box.kind)), " ", nameOf(box.label),
        isAdmin && this.columns.search.word === "conditional" && el("span", { class: "k" }, " if somebody else acts")),
      shows && el("span", { class: "count" }, number(box.count), el("span", { class: "sr" }, " " + box.unit[box.count === 1 ? 0 : 1])));
    this.boxes.set(made, box);
    box.element = made;
    box.column = column;
    this.elements.push(made);
    return made;
  }

  lines() {
    const frame = this.grid.getBoundingClientRect();
    this.svg.replaceChildren();
    this.paths = [];
    if (!frame.width || getComputedStyle(this.svg).display === "none") return;
    this.svg.setAttribute("viewBox", `0 0 ${frame.width} ${frame.height}`);
    const place = (box) => {
      const r = box.element.getBoundingClientRect();
      return { left: r.left - frame.left, right: r.right - frame.left, y: (r.top + r.bottom) / 2 - frame.top };
    };
    const places = new Map([...this.boxes.values()].map((box) => [box, place(box)]));
    const line = (from, to, d, kind) => {
      const path = shape("path", { d, class: kind });
      this.svg.append(path);
      this.paths.push({ path, from, to });
    };
    for (const [kind, links] of [["", this.links], ["later", this.later], ["strong", this.strong]]) {
      for (const [from, tos] of links) {
        const a = places.get(from);
        for (const to of tos) {
          const b = places.get(to);
          if (a && b) line(from, to, this.curve(from.column === to.column, a, b), kind);
        }
      }
    }
    this.point(this.elements.find((e) => e === document.activeElement));
  }

  // From the right side of a box to the left side of another; within a column around its right side.
  curve(isWithin, a, b) {
    const [end, sign] = isWithin ? [b.right, 1] : [b.left, -1];
    const bend = isWithin ? 14 + Math.min(14, Math.abs(a.y - b.y) / 12) : Math.max(18, (b.left - a.right) / 2);
    return `M${a.right} ${a.y}C${a.right + bend} ${a.y} ${end + sign * bend} ${b.y} ${end} ${b.y}`;
  }

  // Marks what leads to a box and where it leads, and says what it is.
  point(element) {
    const box = element && this.boxes.get(element);
    this.element.classList.toggle("pointed", Boolean(box));
    const lit = new Set();
    const walk = (at, forward, seen) => {
      lit.add(at);
      for (const { from, to } of this.paths ?? []) {
        const next = forward ? (from === at ? to : null) : to === at ? from : null;
        if (next && !seen.has(next)) {
          seen.add(next);
          walk(next, forward, seen);
        }
      }
    };
    if (box) {
      // The lines of a box that is unfolded are those of the boxes in it.
      const inside = new Set([...this.boxes.values()].filter((b) => isIn(b, box)));
      for (const one of inside) walk(one, true, new Set(inside));
      const after = new Set(lit);
      for (const one of inside) walk(one, false, new Set(inside));
      for (const { path, from, to } of this.paths ?? []) {
        path.classList.toggle("lit", lit.has(from) && lit.has(to) && (after.has(from) === after.has(to) || inside.has(from) || inside.has(to)));
      }
    }
    for (const [e, b] of this.boxes) e.classList.toggle("lit", lit.has(b));
    if (!box) return;
    const about = box.value == null ? null : this.describe(box.value, this.columns.columns.indexOf(box.column));
    const what = about ?? [el("span", {}, nameOf(box.kind), " ", nameOf(box.label), ": ", number(box.count) + " " + box.unit[box.count === 1 ? 0 : 1])];
    this.strip.replaceChildren(...what, ...this.neighbours(box, "Reached from", false), ...this.neighbours(box, "Leads to", true));
  }

  // The lines in words, for those who do not see them.
  neighbours(box, words, forward) {
    const found = new Set();
    for (const links of [this.links, this.later, this.strong]) {
      for (const [from, tos] of links) {
        for (const to of tos) {
          const [near, far] = forward ? [from, to] : [to, from];
          if (isIn(near, box) && !isIn(far, box)) found.add(far);
        }
      }
    }
    if (!found.size) return [];
    const some = [...found].slice(0, 5).flatMap((b, i) => [i > 0 && ", ", nameOf(b.label)]).filter(Boolean);
    return [el("span", { class: "near" }, words + ": ", ...some, found.size > 5 && " and " + number(found.size - 5) + " more")];
  }

  click(element) {
    const box = element && this.boxes.get(element);
    if (!box) return;
    if (box.isMore) this.limits.set(box.parent.key, box.limit);
    else if (box.unfolds && !this.open.delete(box.key)) this.open.add(box.key);
    if (box.unfolds) this.draw(box.isMore ? box.next : box.key);
    else this.point(element);
  }

  fold(box) {
    for (let at = box; at && at.depth >= 0; at = at.parent) {
      if (!this.open.delete(at.key)) continue;
      this.draw(at.key);
      return true;
    }
    return false;
  }

  key(event) {
    const element = event.target.closest?.("button.box"), box = element && this.boxes.get(element);
    if (!box || event.ctrlKey || event.metaKey || event.altKey) return;
    const column = box.column.boxes, at = column.indexOf(box);
    const all = this.columns.columns, mine = all.indexOf(box.column);
    const beside = (step) => {
      for (let c = mine + step; all[c]; c += step) {
        const linked = this.paths.filter(({ from, to }) => (step > 0 ? from : to) === box).map(({ from, to }) => (step > 0 ? to : from));
        const from = all[c].boxes.filter((b) => linked.includes(b));
        const y = element.getBoundingClientRect().top;
        const near = (from.length ? from : all[c].boxes).map((b) => [Math.abs(b.element.getBoundingClientRect().top - y), b]);
        if (near.length) return near.sort((a, b) => a[0] - b[0])[0][1];
      }
      return null;
    };
    const to = { ArrowDown: () => column[at + 1], ArrowUp: () => column[at - 1], ArrowRight: () => beside(1), ArrowLeft: () => beside(-1),
      Home: () => column[0], End: () => column.at(-1) }[event.key];
    if (to) {
      const next = to()?.element;
      if (next) this.move(element, next);
    } else if (event.key !== "Escape" || !this.fold(box)) return;
    event.preventDefault();
    event.stopPropagation();
  }

  move(from, to) {
    from.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  }
}
