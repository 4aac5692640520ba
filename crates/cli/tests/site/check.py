"""Looks at pages of the site in Chromium.

    python3 check.py SITE [SCREENSHOTS]

Prints what is wrong; exit code 1 if something is. With a folder, keeps a picture of each page there.
"""
import functools
import http.server
import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "audit/page"))
from browser import Browser
from check import WIDE

# One of each kind: pictures, commands, wide tables, generated pages, a page from outside of docs, a file as plain text.
PAGES = ["", "start/files/", "concepts/boundary/", "concepts/certificate/", "serve/", "reference/commands/serve/", "reference/kinds/", "metrics/",
         "rules/NA/", "compatibility/", "ARCHITECTURE/", "deploy/serve/", "crates/policy/src/chain.rs.html"]
FOUND = """new Promise((done) => {
  const field = document.querySelector("input.md-search__input");
  field.focus();
  field.value = "nodeSecretAlarm node-secret-alarm";
  const end = performance.now() + 60000;
  const look = () => {
    // Again and again: the script of the theme may not listen yet when the page is loaded.
    field.dispatchEvent(new Event("input", {bubbles: true}));
    field.dispatchEvent(new KeyboardEvent("keyup", {bubbles: true}));
    const found = document.querySelectorAll(".md-search-result__item").length;
    if (found || performance.now() > end) done(found);
    else setTimeout(look, 50);
  };
  look();
})"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def look(page, base, path, failures, pictures):
    for width, height, dark in ((1280, 900, False), (390, 844, False), (390, 844, True)):
        page.view(width, height, dark=dark, mobile=width < 500)
        page.open(base + path)
        where = f"{path or 'home'} at {width}{' dark' if dark else ''}"
        # Plain text scrolls, as a file does in an editor.
        if not path.endswith(".rs.html") and (wide := page.run(WIDE)) > 0:
            failures.append(f"{where}: {wide} pixels too wide")
        for problem in page.problems():
            if not problem.startswith(f"request {base}"):
                failures.append(f"{where}: {problem}")
        if pictures:
            page.shot(pathlib.Path(pictures, where.replace("/", "-").replace(" ", "-") + ".png"))


def main(site, pictures=None):
    failures = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_address[1]}/"
    with Browser() as browser:
        page = browser.page()
        for path in PAGES:
            look(page, base, path, failures, pictures)
        page.view(1280, 900)
        page.open(base)
        if not page.run(FOUND):
            failures.append("the search finds nothing")
    print("\n".join(failures))
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
