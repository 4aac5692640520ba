// The page "Explain in the browser": its form, and the program that answers it (site/explain, as WebAssembly).
//
// Nothing leaves the browser: the program is fetched from the site once, and has no import that could send anything. Text of
// objects and of answers is put into the page as text alone, never as HTML.
"use strict";
(() => {
  const place = document.getElementById("explain-form");
  const program = new URL("explain.wasm", document.currentScript.src);

  const RBAC = "rbac.authorization.k8s.io";
  const pod = (name, node, secret) => ({
    apiVersion: "v1", kind: "Pod", metadata: {namespace: "shop", name},
    spec: {nodeName: node, containers: [{name: "main", image: `example.org/${name}`}], volumes: [{name: "password", secret: {secretName: secret}}]},
  });
  const CLUSTER = {
    apiVersion: "v1", kind: "List", items: [
      {apiVersion: "v1", kind: "Node", metadata: {name: "node-1"}},
      {apiVersion: "v1", kind: "Node", metadata: {name: "node-2"}},
      pod("orders", "node-1", "database"),
      pod("mail", "node-2", "mail-password"),
      {
        apiVersion: `${RBAC}/v1`, kind: "Role", metadata: {namespace: "shop", name: "theme-editor"},
        rules: [{verbs: ["get", "update"], apiGroups: [""], resources: ["configmaps"], resourceNames: ["theme"]}],
      },
      {
        apiVersion: `${RBAC}/v1`, kind: "RoleBinding", metadata: {namespace: "shop", name: "dora-edits-the-theme"},
        subjects: [{kind: "User", apiGroup: RBAC, name: "dora"}],
        roleRef: {kind: "Role", apiGroup: RBAC, name: "theme-editor"},
      },
    ],
  };
  const NODE = {user: "system:node:node-1", verb: "get", resource: "secrets", namespace: "shop"};
  const EXAMPLES = [
    ["A secret of its own pod", {...NODE, name: "database"}],
    ["Another node's secret", {...NODE, name: "mail-password"}],
    ["A user and a role", {user: "dora", verb: "update", resource: "configmaps", namespace: "shop", name: "theme"}],
  ];

  // The groups that an API server gives to a user of this name, and those of the certificate of a kubelet.
  const groupsOf = (user) => {
    const account = /^system:serviceaccount:([^:]+):[^:]+$/.exec(user);
    if (user === "system:anonymous") return ["system:unauthenticated"];
    if (user.startsWith("system:node:")) return ["system:nodes", "system:authenticated"];
    if (account) return ["system:serviceaccounts", `system:serviceaccounts:${account[1]}`, "system:authenticated"];
    return ["system:authenticated"];
  };

  const element = (name, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };

  // The program, compiled once.

  let compiled;
  const compile = async () => {
    const response = await fetch(program);
    if (!response.ok) throw new Error(`${program}: ${response.status} ${response.statusText}`);
    const isTyped = response.headers.get("content-type") === "application/wasm";
    return isTyped ? WebAssembly.compileStreaming(response) : WebAssembly.compile(await response.arrayBuffer());
  };
  // After an error the next question tries again.
  const ready = () => compiled ??= compile().catch((error) => { compiled = undefined; throw error; });

  // Runs the program: what it reads from its standard input, and what it writes to its standard output. These six functions of
  // WASI preview 1 are all that it imports: see https://github.com/WebAssembly/WASI for their arguments.
  const run = async (input) => {
    const module = await ready();
    const rest = {bytes: new TextEncoder().encode(input), at: 0};
    const written = {1: [], 2: []};
    let memory;
    const view = () => new DataView(memory.buffer);
    const parts = function* (list, count) {
      for (let at = list; at < list + 8 * count; at += 8) {
        yield new Uint8Array(memory.buffer, view().getUint32(at, true), view().getUint32(at + 4, true));
      }
    };
    const DONE = 0, NO_SUCH_FILE = 8;
    class Exit extends Error {}
    const wasi = {
      fd_read: (file, list, count, size) => {
        if (file !== 0) return NO_SUCH_FILE;
        let read = 0;
        for (const part of parts(list, count)) {
          const bytes = rest.bytes.subarray(rest.at, rest.at + part.length);
          part.set(bytes);
          rest.at += bytes.length;
          read += bytes.length;
        }
        view().setUint32(size, read, true);
        return DONE;
      },
      fd_write: (file, list, count, size) => {
        if (!written[file]) return NO_SUCH_FILE;
        let length = 0;
        for (const part of parts(list, count)) {
          written[file].push(part.slice());
          length += part.length;
        }
        view().setUint32(size, length, true);
        return DONE;
      },
      environ_sizes_get: (count, size) => {
        view().setUint32(count, 0, true);
        view().setUint32(size, 0, true);
        return DONE;
      },
      environ_get: () => DONE,
      random_get: (start, length) => {
        // The browser gives at most 65536 bytes at a time.
        for (let at = 0; at < length; at += 65536) {
          crypto.getRandomValues(new Uint8Array(memory.buffer, start + at, Math.min(65536, length - at)));
        }
        return DONE;
      },
      proc_exit: (code) => { throw new Exit(`exit code ${code}`); },
    };
    const instance = await WebAssembly.instantiate(module, {wasi_snapshot_preview1: wasi});
    memory = instance.exports.memory;
    const text = async (file) => new Blob(written[file]).text();
    try {
      instance.exports._start();
    } catch (error) {
      // What ends the program before its answer: there is no memory for so much input.
      if (!(error instanceof Exit)) throw new Error(`the program stopped (${error.message}): ask about fewer objects. ${await text(2)}`);
    }
    const output = await text(1);
    if (!output) throw new Error(`the program gave no answer: ${await text(2)}`);
    return JSON.parse(output);
  };

  // The form.

  const fields = {};
  const labelled = (name, label, field, hint) => {
    fields[name] = Object.assign(field, {id: `explain-${name}`, name, autocomplete: "off", spellcheck: false});
    field.setAttribute("autocapitalize", "off");
    const row = element("div", {className: "explain-field"}, element("label", {htmlFor: field.id, textContent: label}), field);
    if (hint) {
      row.append(element("small", {id: `${field.id}-hint`, textContent: hint}));
      field.setAttribute("aria-describedby", `${field.id}-hint`);
    }
    return row;
  };
  const line = (name, label, hint) => labelled(name, label, element("input", {type: "text"}), hint);
  const choice = (value, label) => {
    const button = element("input", {type: "radio", name: "about", value});
    fields[value] = button;
    return element("label", {}, button, ` ${label}`);
  };
  const group = (legend, ...children) => element("fieldset", {}, element("legend", {textContent: legend}), ...children);

  const examples = element("div", {className: "explain-examples", role: "group", ariaLabel: "Examples"}, element("span", {textContent: "Examples:"}));
  const objects = labelled("objects", "Objects of the cluster, as JSON", element("textarea", {rows: 14, wrap: "off"}),
    "What kubectl get -o json prints, one output after the other if there are several.");
  const who = element("div", {className: "explain-row"},
    line("user", "User"),
    labelled("groups", "Groups, one on a line", element("textarea", {rows: 3}), "Filled in as for this user name. Change them if the user has others."));
  const resource = element("div", {className: "explain-row"},
    line("resource", "Resource", "The plural: pods, secrets, nodes"), line("name", "Name", "Empty for all, as in a list"), line("namespace", "Namespace", "Empty for none, or all"),
    line("group", "API group", "Empty for core; apps, coordination.k8s.io"), line("subresource", "Subresource", "status, log, token; mostly empty"));
  const path = element("div", {className: "explain-row"}, line("path", "Path", "Such as /version"));
  const verb = line("verb", "Verb", "get, list, watch, create, update, patch, delete");
  const about = element("div", {className: "explain-choices"}, choice("of-resource", "a resource"), choice("of-path", "a path that is no resource"));
  const defaults = element("input", {type: "checkbox", id: "explain-defaults"});
  const button = element("button", {type: "submit", className: "md-button md-button--primary", textContent: "Explain"});
  const form = element("form", {noValidate: true},
    examples, objects,
    group("Who asks", who),
    group("For what", element("div", {className: "explain-row"}, verb), about, resource, path),
    element("div", {className: "explain-choices"}, element("label", {}, defaults, " Add the default RBAC policy of Kubernetes to the objects")),
    button);
  const answer = element("div", {id: "explain-answer", ariaLive: "polite"});

  const showKind = () => {
    resource.hidden = fields["of-path"].checked;
    path.hidden = !resource.hidden;
  };
  let filled = "";
  const fillGroups = () => {
    const groups = groupsOf(fields.user.value).join("\n");
    // What somebody has typed stays.
    if (fields.groups.value === filled) fields.groups.value = groups;
    filled = groups;
  };
  const fill = (question) => {
    fields.objects.value = JSON.stringify(CLUSTER, null, 2);
    for (const name of ["user", "verb", "resource", "subresource", "group", "namespace", "name", "path"]) fields[name].value = question[name] ?? "";
    fields.groups.value = filled = "";
    fillGroups();
    defaults.checked = false;
    fields["of-resource"].checked = true;
    showKind();
    answer.replaceChildren();
  };

  const question = () => {
    const value = (name) => fields[name].value.trim();
    const attributes = (...names) => Object.fromEntries(names.map((name) => [name, value(name)]));
    const spec = {user: value("user"), groups: fields.groups.value.split("\n").map((text) => text.trim()).filter(Boolean)};
    if (fields["of-path"].checked) spec.nonResourceAttributes = attributes("verb", "path");
    else spec.resourceAttributes = attributes("verb", "group", "resource", "subresource", "namespace", "name");
    return {objects: fields.objects.value, defaultPolicy: defaults.checked, spec};
  };

  const count = (number, one, many) => `${number} ${number === 1 ? one : many}`;
  const show = (found) => {
    const paragraph = (text) => element("p", {textContent: text});
    if (found.error !== undefined) {
      answer.replaceChildren(element("div", {className: "explain-result explain-error"}, element("p", {className: "explain-decision", textContent: "No answer"}), paragraph(found.error)));
      return;
    }
    const decisions = {
      yes: found.by ? `Yes: mode ${found.by} allows it` : "Yes",
      no: "No: nothing allows it",
      unknown: "Unknown: nothing that can be read allows it",
    };
    const result = element("div", {className: `explain-result explain-${found.decision}`}, element("p", {className: "explain-decision", textContent: decisions[found.decision]}));
    if (found.reason) result.append(element("p", {}, element("strong", {textContent: "What the user is told: "}), found.reason));
    result.append(element("pre", {tabIndex: 0, ariaLabel: "Explanation", textContent: found.explanation}));
    let used = `${count(found.read, "object takes", "objects take")} part in decisions.`;
    if (found.passedOver) used += ` ${count(found.passedOver, "object is", "objects are")} of a kind that plays no part.`;
    result.append(paragraph(used));
    if (found.unreadable.length) {
      const all = found.unreadable.length + found.moreUnreadable;
      result.append(paragraph(`${count(all, "object", "objects")} cannot be read and took no part:`), element("ul", {}, ...found.unreadable.map((text) => element("li", {textContent: text}))));
      if (found.moreUnreadable) result.append(paragraph(`… and ${found.moreUnreadable} more.`));
    }
    answer.replaceChildren(result);
  };

  for (const [name, asked] of EXAMPLES) {
    const example = element("button", {type: "button", className: "explain-example", textContent: name});
    example.addEventListener("click", () => { fill(asked); form.requestSubmit(); });
    examples.append(example);
  }
  fields.user.addEventListener("input", fillGroups);
  about.addEventListener("change", showKind);
  // Of two questions the answer to the later one stays.
  let latest = 0;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const own = ++latest;
    button.disabled = true;
    let found;
    try {
      found = await run(JSON.stringify(question()));
    } catch (error) {
      found = {error: String(error.message ?? error)};
    }
    if (own !== latest) return;
    button.disabled = false;
    show(found);
    // The buttons of the examples are a screen above it.
    answer.scrollIntoView({block: "nearest"});
  });

  fill(EXAMPLES[0][1]);
  place.replaceChildren(form, answer);
  // Errors are told when a question is asked.
  ready().catch(() => {});
})();
