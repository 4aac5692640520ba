"""Checks pages of `portcullis audit` in Chromium (AU-166).

    python3 check.py CHECK PAGE [ANSWER]

Prints what is wrong; exit code 1 if something is. ANSWER is what `portcullis reach -o json` says about the same state.
"""
import json
import pathlib
import sys

from browser import Browser

failures = []


def check(is_right, what):
    if not is_right:
        failures.append(what)


CONTRAST = """(() => {
  const channel = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (c) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const ground = (e) => { for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] > 250) return c; } return [255, 255, 255]; };
  let least = 99, where = "", seen = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode, e = text.parentElement;
    if (!text.data.trim() || !e.checkVisibility() || e.closest("script, style, option")) continue;
    const [a, b] = [light(rgba(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    seen++;
    if (ratio < least) { least = ratio; where = e.tagName + "." + e.className + ": " + text.data.slice(0, 40); }
  }
  return [least, where, seen];
})()"""

UNNAMED = """[...document.querySelectorAll("a[href], button, input, select, summary, [role=region], [role=group]")].filter((e) => e.checkVisibility())
  .filter((e) => !(e.getAttribute("aria-label") || e.textContent.trim() || e.labels?.length || e.title)).map((e) => e.outerHTML.slice(0, 120))"""

WIDE = "document.documentElement.scrollWidth - innerWidth"


VIEWS = ["overview", "findings", "nodes", "workloads", "rules", "unchecked"]


def go(page, fragment):
    page.run(f"location.hash = {json.dumps(fragment)}")
    page.run("new Promise((done) => setTimeout(done, 40))")


def nodes_of(page):
    """The links to the pages of the nodes."""
    go(page, "#nodes")
    return page.run("[...document.querySelectorAll('.reach th a')].map((a) => a.getAttribute('href'))")


def fragment(text):
    return "".join(chr(b) if chr(b).isascii() and (chr(b).isalnum() or chr(b) in "-._~") else f"%{b:02X}" for b in text.encode())


def views(browser, url, _):
    """Every view: nothing in the console, no request, contrast, names for screen readers, no sideways scrolling."""
    page = browser.page()
    page.open(url)
    every = ["#" + view for view in VIEWS] + nodes_of(page)[:1] + ["#way/1", "#step/E17", "#node/none", "#finding/none"]
    for dark in (False, True):
        for width, height, is_phone in ((1440, 900, False), (360, 800, True)):
            page.view(width, height, dark, is_phone)
            for view in every:
                page.open(url + view)
                label = f"{view} {'dark' if dark else 'light'} {width}"
                check(not page.problems(), f"{label}: console or requests: {page.problems()[:2]}")
                if view == "#findings":
                    page.run("document.querySelectorAll('details.finding').forEach((d) => { d.open = true; d.style.contentVisibility = 'visible' })")
                least, where, seen = page.run(CONTRAST)
                check(seen > 10 and least >= 4.5, f"{label}: contrast {least:.2f} ({where}) of {seen} texts")
                check(page.run(WIDE) <= 0, f"{label}: {page.run(WIDE)} wider than the window")
                check(page.run(UNNAMED) == [], f"{label}: without a name: {page.run(UNNAMED)[:2]}")


def without_scripts(browser, url, answer):
    """Without scripts every finding and every node is shown, and every link leads to something."""
    page = browser.page()
    page.view(1440, 900)
    page.without_scripts(url)
    check(not page.problems(), f"console or requests: {page.problems()[:2]}")
    check(not page.run("document.documentElement.classList.contains('js')"), "a script ran")
    check(page.run("[...document.querySelectorAll('section.view:not([hidden])')].every((s) => s.checkVisibility())"), "a part is hidden")
    # Not `checkVisibility`: what is far below is laid out when it is scrolled to.
    shown = page.run("""[...document.querySelectorAll('details.finding[open] .body')].filter((b) => {
        for (let e = b; e; e = e.parentElement) if (getComputedStyle(e).display === 'none' || e.hidden) return false;
        return true;
    }).length""")
    every = page.run("document.querySelectorAll('details.finding').length")
    check(shown == every, f"{shown} of {every} findings are unfolded")
    check(not page.run("document.getElementById('filters').checkVisibility()"), "filters that do nothing are shown")
    names = [node["node"] for node in answer["nodes"]]
    there = page.run("[...document.querySelectorAll('tbody[id^=\"node/\"]')].filter((e) => e.checkVisibility()).map((e) => e.id.slice(5))")
    check(there == names, f"nodes: {there} instead of {names}")
    # The numbers in the table are those of `reach`.
    cells = page.run("[...document.querySelectorAll('tbody[id^=\"node/\"]')].map((e) => [...e.rows[0].cells].slice(1).map((c) => c.innerText))")
    for node, row in zip(answer["nodes"], cells):
        end = node["closure"]["counts"]
        numbers = [len(node["pods"]), len(node["secrets"]), len(node["configmaps"]), len(node["persistentvolumes"]), len(node["serviceaccounts"]),
                   end["nodes"], end["pods"]["ofOthers"], end["secrets"]["count"], end["serviceaccounts"]]
        got = [int(text.split()[0].replace(",", "")) for text in row[1:]]
        check(got == numbers and row[0].lower().startswith(node["closure"]["clusterAdmin"]), f"{node['node']}: {row} instead of {numbers}")
    dead = page.run("""[...document.querySelectorAll("a[href^='#']")].map((a) => a.getAttribute("href").slice(1)).filter((f) => { try { return !document.getElementById(decodeURIComponent(f)); } catch { return true; } })""")
    check(dead == [], f"links to nothing: {dead[:3]}")
    twice = page.run("(() => { const seen = new Set(), twice = []; for (const e of document.querySelectorAll('[id]')) { if (seen.has(e.id)) twice.push(e.id); seen.add(e.id); } return twice; })()")
    check(twice == [], f"ids that are there twice: {twice[:3]}")


def search(browser, url, answer):
    """The search of the page finds the numbers and the paths of `reach`."""
    page = browser.page()
    page.view(1440, 900)
    page.open(url)
    compared = 0
    for node in answer["nodes"]:
        start = "#node/" + fragment(node["node"])
        go(page, start)
        check(page.run("document.querySelector('#node-page .note, .node-page .note')?.textContent ?? null") is None, f"{node['node']}: the search differs from the counts")
        paths = node["closure"].get("paths", [])
        if node["closure"]["clusterAdmin"] == "no":
            check(page.run("document.querySelectorAll('.chain.path > li').length") == 0, f"{node['node']}: a path to admin that is not there")
        for path in paths:
            go(page, start + "?to=" + fragment(path["to"]))
            steps = page.run("[...document.querySelectorAll('.chain.path > li')].slice(1).map((li) => [li.querySelector('.edge').textContent, li.querySelector('bdi').textContent])")
            name = lambda to: "everything in the cluster" if to == "admin" else to.split("/", 1)[1]
            expected = [[edge["id"], name(edge["to"])] for edge in path["edges"]]
            check(steps == expected, f"{node['node']} to {path['to']}: {steps} instead of {expected}")
            compared += 1
    check(not page.problems(), f"console or requests: {page.problems()[:2]}")
    print(compared, "paths")


def keyboard(browser, url, _):
    """Everything by keys alone: order, visible focus, the picture, the filter, findings, a path."""
    page = browser.page()
    page.view(1440, 900)
    page.open(url)
    focus = lambda: page.run("(document.activeElement.textContent || document.activeElement.id).trim().replace(/\\s+/g, ' ').slice(0, 60)")
    wait = lambda ms: page.run(f"new Promise((done) => setTimeout(done, {ms}))")
    visible = lambda: page.run("[...document.querySelectorAll('details.finding')].filter((d) => d.checkVisibility()).length")
    is_box = "document.activeElement.classList.contains('box')"
    is_open = "document.activeElement.closest('details').open"
    page.key("Tab")
    check(focus() == "Skip to the content", f"the first stop is {focus()}")
    order = []
    for _ in range(6):
        page.key("Tab")
        order.append(focus())
    check(order == ["Overview", "Findings", "Nodes", "Workloads", "Rules", "Not checked"], f"order: {order}")
    outline = page.run("getComputedStyle(document.activeElement).outlineStyle + getComputedStyle(document.activeElement).outlineWidth")
    check(outline == "solid2px", f"the focus is not seen: {outline}")
    wait(300)
    for _ in range(200):
        if page.run(is_box):
            break
        page.key("Tab")
    check(page.run(is_box), "the picture cannot be reached")
    check(page.run("document.querySelectorAll('button.box[tabindex=\"0\"]').length") == 1, "not one box takes the focus by Tab")
    page.key("ArrowRight")
    check(page.run("document.activeElement.closest('.col').getAttribute('aria-label')") == "Pods", "the right arrow does not lead to the pods")
    before = page.run("document.querySelectorAll('button.box').length")
    page.key("Enter")
    check(page.run("document.querySelectorAll('button.box').length") > before, "Enter does not unfold a box")
    page.key("Escape")
    check(page.run("document.querySelectorAll('button.box').length") == before and page.run(is_box), "Escape does not fold it")
    for key in ("End", "Home", "ArrowUp", "ArrowLeft"):
        page.key(key)
    check(page.run(is_box), "an arrow leaves the picture")
    page.key("/")
    check(page.run("document.activeElement.id") == "f-q" and page.run("location.hash") == "#findings", "/ does not lead to the filter")
    every = visible()
    page.type("no finding has this")
    wait(400)
    check(visible() == 0 and "q=" in page.run("location.hash"), f"the filter keeps {visible()} findings")
    page.key("Escape")
    wait(300)
    check(visible() == every > 0, "Escape does not clear the filter")
    page.key("Escape")
    check(page.run("document.activeElement.id") == "h-findings", "Escape does not leave the filter")
    for _ in range(200):
        if page.run("document.activeElement.tagName === 'SUMMARY'"):
            break
        page.key("Tab")
    page.key("Enter")
    check(page.run(is_open) and page.run("document.activeElement.closest('details').querySelector('.body')?.checkVisibility()"), "Enter does not unfold a finding")
    page.key("Tab")
    page.key("Escape")
    check(page.run("document.activeElement.tagName === 'SUMMARY'") and not page.run(is_open), "Escape does not fold it")
    node = nodes_of(page)[0]
    go(page, node)
    check(page.run("document.activeElement.id") == "h-node", "a new view does not take the focus to its heading")
    page.key("/")
    check(page.run("document.activeElement.id") == "p-to", "/ does not lead to the search for a path")
    page.type("secret")
    page.key("ArrowDown")
    check(page.run("document.activeElement.closest('.hits') !== null"), "the down arrow does not lead to the matches")
    page.key("Enter")
    wait(100)
    check(page.run("location.hash").startswith(node + "?to=secret"), f"Enter leads to {page.run('location.hash')}")
    check(page.run("document.querySelectorAll('.chain.path > li').length") > 1, "there is no path to the match")
    page.run("history.back()")
    for _ in range(100):
        if page.run("location.hash") == node:
            break
        wait(100)
    check(page.run("location.hash") == node, "back does not lead to the path to admin")
    check(not page.problems(), f"console or requests: {page.problems()[:2]}")


def hostile(browser, url, _):
    """No name becomes an element, a script, or turns the text around it."""
    page = browser.page()
    page.view(1440, 900)
    page.open(url)
    nodes = nodes_of(page)
    check(len(nodes) > 5, f"{len(nodes)} nodes")
    for view in ["#" + view for view in VIEWS] + nodes:
        go(page, view)
        page.run("document.querySelectorAll('.shown details.finding').forEach((d) => { d.open = true })")
        page.run("document.querySelectorAll('.shown button.box[aria-expanded=false]').forEach((b) => b.click())")
        page.run("(() => { const i = document.querySelector('#p-to'); if (i) { i.value = '<'; i.dispatchEvent(new Event('input')); } })()")
        check("no node of this name" not in page.run("document.body.innerText"), f"{view[:60]}: no such node")
    state = page.run("[window.hacked === undefined, document.querySelectorAll('img, iframe, object, embed').length, document.scripts.length, document.querySelectorAll('body [onerror], body [onfocus], body [onload]').length, document.querySelectorAll('base, meta[http-equiv=refresh]').length]")
    check(state == [True, 0, 3, 0, 0], f"a name has become an element or a script: {state}")
    for view in ["#" + view for view in VIEWS] + nodes[:2]:
        for width in (1440, 360):
            page.view(width, 900, mobile=width < 400)
            go(page, view)
            check(page.run(WIDE) <= 0, f"{view[:60]} at {width}: {page.run(WIDE)} wider than the window")
    raw = page.run("(() => { const hidden = /[\\u202a-\\u202e\\u2066-\\u2069\\u200b\\ufeff]/; const out = []; const w = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); while (w.nextNode()) { const e = w.currentNode.parentElement; if (!e.closest('script, style, noscript, datalist, option, select') && hidden.test(w.currentNode.data)) out.push(e.outerHTML.slice(0, 100)); } return out; })()")
    check(raw == [], f"hidden characters stay hidden: {raw[:2]}")
    check(not page.problems(), f"console or requests: {page.problems()[:2]}")


def printing(browser, url, _):
    """On paper everything is unfolded."""
    page = browser.page()
    page.view(1440, 900)
    page.open(url)
    every = page.run("document.querySelectorAll('details.finding').length")
    rows = page.run("JSON.parse(document.getElementById('data').textContent).counts.length / 13")
    page.call("Emulation.setEmulatedMedia", media="print")
    page.run("dispatchEvent(new Event('beforeprint'))")
    shown = page.run("[...document.querySelectorAll('details.finding[open] .body')].filter((b) => b.checkVisibility()).length")
    check(shown == every, f"{shown} of {every} findings are unfolded")
    check(page.run("document.querySelectorAll('.reach tr.runs').length") == rows, "rows of nodes are folded")
    page.run("dispatchEvent(new Event('afterprint'))")
    page.call("Emulation.setEmulatedMedia", media="")
    pdf = page.pdf()
    check(pdf.startswith(b"%PDF-") and pdf.count(b"/Type /Page\n") > 1, f"{len(pdf)} bytes of PDF")
    check(not page.problems(), f"console or requests: {page.problems()[:2]}")


def large(browser, url, _):
    """A page of a large cluster is painted and answers. Prints how soon; how soon it must be is a question for a benchmark."""
    page = browser.page()
    page.view(1440, 900)
    page.open(url)
    painted = page.run("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null")
    loaded = page.run("performance.getEntriesByType('navigation')[0].domComplete")
    check(painted is not None, "nothing is painted")
    check(page.run("document.querySelectorAll('button.box').length") > 1, "there is no picture")
    check(page.run(WIDE) <= 0, f"{page.run(WIDE)} wider than the window")
    answered = page.run("""new Promise((done) => {
        const begin = performance.now();
        location.hash = "#node/node-7?to=secret/team-7/app-0";
        const look = () => {
            if (document.querySelectorAll(".chain.path > li").length > 1) done(performance.now() - begin);
            else if (performance.now() - begin > 60000) done(null);
            else requestAnimationFrame(look);
        };
        look();
    })""")
    check(answered is not None, "the page of a node shows no path to a secret of its pods")
    check(not page.problems(), f"console or requests: {page.problems()[:2]}")
    print(f"first paint after {painted or 0:.0f} ms, complete after {loaded:.0f} ms, a path {answered or 0:.0f} ms after the click")


CHECKS = {check.__name__: check for check in (views, without_scripts, search, keyboard, hostile, printing, large)}

if __name__ == "__main__":
    name, file, *answer = sys.argv[1:]
    document = json.loads(pathlib.Path(answer[0]).read_text()) if answer else None
    with Browser() as browser:
        CHECKS[name](browser, pathlib.Path(file).as_uri(), document)
    for failure in failures:
        print(failure)
    sys.exit(bool(failures))
