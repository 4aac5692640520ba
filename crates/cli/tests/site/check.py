"""Looks at pages of the site in Chromium.

    python3 check.py SITE [SCREENSHOTS]

Prints what is wrong; exit code 1 if something is. With a folder, keeps a picture of each page there.
"""
import functools
import http.server
import json
import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "audit/page"))
from browser import Browser
from check import WIDE

# One of each kind: pictures, commands, wide tables, generated pages, a page from outside of docs, a file as plain text.
PAGES = ["", "start/files/", "concepts/boundary/", "concepts/certificate/", "serve/", "reference/commands/serve/", "reference/kinds/", "metrics/",
         "explain-in-browser/", "rules/NA/", "compatibility/", "ARCHITECTURE/", "deploy/serve/", "crates/policy/src/chain.rs.html"]
FOUND = """new Promise((done) => {
  const field = document.querySelector("input.md-search__input");
  field.focus();
  field.value = "nodeSecretAlarm node-secret-alarm";
  const end = performance.now() + 300000;
  let asked = -Infinity;
  const look = () => {
    const found = document.querySelectorAll(".md-search-result__item").length;
    if (found || performance.now() > end) return done(found);
    // Again, because the script of the theme may not listen yet when the page is loaded; but not before a slow machine has searched.
    if (performance.now() > asked + 5000) {
      asked = performance.now();
      field.dispatchEvent(new Event("input", {bubbles: true}));
      field.dispatchEvent(new KeyboardEvent("keyup", {bubbles: true}));
    }
    setTimeout(look, 50);
  };
  look();
})"""


# The answer on the page that explains in the browser, once there is one: its class, and its text.
ANSWERED = """new Promise((done) => {
  const end = performance.now() + 60000;
  const look = () => {
    const result = document.querySelector("#explain-answer .explain-result");
    if (result || performance.now() > end) done(result ? [result.className.split("explain-").pop(), result.innerText] : ["none", ""]);
    else setTimeout(look, 50);
  };
  look();
})"""
HOSTILE = "<img src=x onerror=document.title='taken'>"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def show(page, base, path, width, height, dark):
    """Opens a page at a width, light or dark. The theme keeps what a page was shown in, so that is forgotten."""
    page.call("Storage.clearDataForOrigin", origin=base.rstrip("/"), storageTypes="local_storage")
    page.view(width, height, dark=dark, mobile=width < 500)
    page.open(base + path)


def look(page, base, path, failures, pictures):
    for width, height, dark in ((1280, 900, False), (390, 844, False), (390, 844, True)):
        show(page, base, path, width, height, dark)
        where = f"{path or 'home'} at {width}{' dark' if dark else ''}"
        # Plain text scrolls, as a file does in an editor.
        if not path.endswith(".rs.html") and (wide := page.run(WIDE)) > 0:
            failures.append(f"{where}: {wide} pixels too wide")
        for problem in page.problems():
            if not problem.startswith(f"request {base}"):
                failures.append(f"{where}: {problem}")
        if pictures:
            page.shot(pathlib.Path(pictures, where.replace("/", "-").replace(" ", "-") + ".png"))


def explains(page, base, failures, pictures):
    """Asks on the page that explains in the browser, as somebody does who types."""
    where = "explain-in-browser/"

    def ask(what, start, decision, *words):
        page.run("document.getElementById('explain-answer').replaceChildren()")
        start()
        found, text = page.run(ANSWERED)
        if found != decision or not all(word in text for word in words):
            failures.append(f"{where}: {what}: {found} and not {decision}: {text}")

    def press(label):
        return lambda: page.run(f"[...document.querySelectorAll('#explain-form button')].find((button) => button.textContent === {json.dumps(label)}).click()")

    def put(**values):
        for name, value in values.items():
            page.run(f"(() => {{ const field = document.getElementById('explain-{name}'); field.value = {json.dumps(value)};"
                     "field.dispatchEvent(new Event('input', {bubbles: true})); })()")

    def enter():
        page.run("document.getElementById('explain-user').focus()")
        page.key("Enter")

    for width, height, dark in ((1280, 900, False), (390, 844, True)):
        show(page, base, where, width, height, dark)
        if page.run("document.body.dataset.mdColorScheme") != ("slate" if dark else "default"):
            failures.append(f"{where} at {width}: the colours are not those of the system")
        ask("the first press", press("Explain"), "yes", "Node")
        ask("another node's secret", press("Another node's secret"), "no", "node-1")
        if pictures:
            page.shot(pathlib.Path(pictures, f"explained-{width}.png"), full=True)
        if (wide := page.run(WIDE)) > 0:
            failures.append(f"{where} with an answer at {width}: {wide} pixels too wide")
        # NA-1: the group makes the node, and the form shows it.
        put(user="system:node:node-2")
        groups = page.run("document.getElementById('explain-groups').value.split('\\n')")
        if groups != ["system:nodes", "system:authenticated"]:
            failures.append(f"{where}: a node has the groups {groups}")
        ask("as the other node, with the Enter key", enter, "yes", "node-2")
        put(groups="system:authenticated", user="system:node:node-1", name="database")
        ask("without the group", enter, "no")
        ask("a user and a role", press("A user and a role"), "yes", "RBAC")

        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "shop", "name": HOSTILE},
               "spec": {"nodeName": "node-1", "volumes": [{"name": "v", "secret": {"secretName": HOSTILE}}]}}
        put(objects=json.dumps(pod), user="system:node:node-1", verb="get", resource="secrets", namespace="shop", name=HOSTILE)
        ask("hostile names", enter, "yes", HOSTILE)
        put(objects=json.dumps([pod, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": HOSTILE}}]), name="other")
        ask("an object that cannot be read", enter, "unknown", "metadata.namespace")
        put(objects=HOSTILE)
        ask("objects that are not JSON", enter, "error", "line 1", "kubectl get -o json")
        if page.run("document.title === 'taken' || !!document.querySelector('#explain-form img')"):
            failures.append(f"{where}: a name has become HTML")
        unlabelled = "[...document.querySelectorAll('#explain-form :is(input, textarea)')].filter((field) => !field.labels.length).map((field) => field.id)"
        if found := page.run(unlabelled):
            failures.append(f"{where}: without a label: {found}")
        failures += [f"{where}: {problem}" for problem in page.problems() if not problem.startswith(f"request {base}")]
        asked = [problem for problem in page.problems() if "explain.wasm" in problem]
        if len(asked) != 1:
            failures.append(f"{where}: the program is loaded {len(asked)} times")
    page.without_scripts(base + where)
    if "portcullis explain" not in page.run("document.getElementById('explain-form').innerText"):
        failures.append(f"{where}: without scripts it does not say what to do")


def main(site, pictures=None):
    failures = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_address[1]}/"
    with Browser() as browser:
        page = browser.page()
        for path in PAGES:
            look(page, base, path, failures, pictures)
        explains(page, base, failures, pictures)
        page.view(1280, 900)
        page.open(base)
        if not page.run(FOUND):
            failures.append("the search finds nothing")
    print("\n".join(failures))
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
