"""What the site needs and MkDocs has not. Pages are Markdown that can be read in the repository as well, so on the site:

- paths are those of the repository, and every link between its files leads somewhere: to a page, or to a file or a folder
  that is shown as plain text;
- lists are nested by two spaces, as in the Markdown of GitHub;
- the flowcharts of Mermaid are pictures. Graphviz draws them when the site is built;
- a page that explains decisions in the browser has its program. Cargo builds it when the site is built.
"""

import html
import os
import posixpath
import re
import subprocess
from pathlib import Path

from markdown import Extension
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
# What is no part of the repository.
MADE = {"target", ".git", "artifacts", "portcullis-data"}
# The program of the page that explains in the browser, and what it is built for.
PACKAGE, TRIPLE = "portcullis-explain-page", "wasm32-wasip1"
PLAIN = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="{root}assets/images/favicon.png">
<title>{title}</title>
<p><a href="{root}index.html">Portcullis</a> / {title}</p>
{body}
</html>
"""


def place(file, path, target, config):
    """Says where a file of the repository is on the site."""
    file.src_uri, file.src_dir = path, str(ROOT)
    file.dest_uri = target
    file.abs_src_path = str(ROOT / path)
    file.abs_dest_path = str(Path(config["site_dir"]) / target)
    file.url = target.removesuffix("index.html") or "./"
    return file


class Plain(File):
    """A file or a folder that is no page, shown as plain text."""

    def __init__(self, path, config):
        super().__init__(path, str(ROOT), config["site_dir"], True)
        is_folder = (ROOT / path).is_dir()
        place(self, path, f"{path}/index.html" if is_folder else f"{path}.html", config)

    def is_documentation_page(self):
        return False

    def copy_file(self, dirty=False):
        source, target = Path(self.abs_src_path), Path(self.abs_dest_path)
        if source.is_dir():
            names = sorted(entry.name for entry in source.iterdir() if entry.name not in MADE)
            body = "<pre>" + html.escape("\n".join(names)) + "</pre>"
        else:
            body = "<pre>" + html.escape(source.read_text("utf-8")) + "</pre>"
        root = "../" * self.dest_uri.count("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(PLAIN.format(title=html.escape(self.src_uri), root=root, body=body), "utf-8")


class Repository(Files):
    """The files of the site by their paths in the repository. What a link leads to becomes a part of it."""

    def __init__(self, files, config):
        super().__init__(files)
        self.config = config

    def get_file_from_path(self, path):
        found = super().get_file_from_path(path)
        if found is None and (ROOT / path).is_dir():
            found = super().get_file_from_path(posixpath.join(path, "README.md"))
        if found is None and (ROOT / path).exists() and MADE.isdisjoint(Path(path).parts):
            found = Plain(path, self.config)
            self.append(found)
        return found


class Lists(Extension):
    """Nests lists by two spaces."""

    def extendMarkdown(self, md):
        md.tab_length = 2


def program():
    """Builds the program of the page that explains in the browser, and says where it is."""
    build = ["cargo", "build", "--locked", "--quiet", "--profile", "page", "--target", TRIPLE, "--package", PACKAGE]
    try:
        installed = subprocess.run(["rustc", "--print", "target-libdir", "--target", TRIPLE], cwd=ROOT, capture_output=True, text=True, check=True)
        if not Path(installed.stdout.strip()).is_dir():
            raise PluginError(f"the compiler has no {TRIPLE}: run `rustup target add {TRIPLE}`")
        subprocess.run(build, cwd=ROOT, check=True)
    except FileNotFoundError as error:
        raise PluginError(f"{error.filename} is missing: install Rust with rustup (https://rustup.rs)") from error
    except subprocess.CalledProcessError as error:
        raise PluginError(f"`{' '.join(error.cmd)}` failed: {error.stderr or 'see above'}") from error
    return ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / TRIPLE / "page" / f"{PACKAGE}.wasm"


def on_config(config):
    config["markdown_extensions"].append(Lists())
    return config


def on_files(files, config):
    for file in files.documentation_pages() + files.media_files():
        if Path(file.abs_src_path).is_relative_to(ROOT):
            place(file, f"docs/{file.src_uri}", file.dest_uri, config)
    files = Repository(list(files), config)

    def add(path, target):
        file = File(path.name, str(ROOT / path.parent), config["site_dir"], True)
        files.append(place(file, path.as_posix(), target.as_posix(), config))

    for folder, folders, names in os.walk(ROOT):
        folder = Path(folder).relative_to(ROOT)
        folders[:] = sorted(name for name in folders if name not in MADE and folder / name != Path("docs"))
        for name in sorted(name for name in names if name.endswith(".md")):
            is_index = name == "README.md" and folder.name
            add(folder / name, (folder if is_index else (folder / name).with_suffix("")) / "index.html")
    add(Path("site/site.css"), Path("site.css"))
    add(Path("site/explain.js"), Path("explain.js"))
    wasm = program()
    made = File(wasm.name, str(wasm.parent), config["site_dir"], True)
    place(made, "explain.wasm", "explain.wasm", config)
    made.abs_src_path = str(wasm)
    files.append(made)
    return files


def on_page_markdown(markdown, page, config, files):
    def row(line):
        """A bar within code of a table has a backslash, which Python-Markdown would show."""
        return re.sub(r"`[^`]*`", lambda code: code[0].replace("\\|", "|"), line[0])

    markdown = re.sub(r"^\|.*", row, markdown, flags=re.M)
    return re.sub(r"^```mermaid\n(.*?)^```$", lambda chart: picture(chart[1], page), markdown, flags=re.M | re.S)


def on_page_content(content, page, config, files):
    """Cells with names, and links to folders and to files without a dot in their names, which MkDocs leaves as they are."""

    def resolved(link):
        path, mark, fragment = link[1].partition("#")
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), path))
        file = files.get_file_from_path(target)
        return f'href="{file.url_relative_to(page.file)}{mark}{fragment}"' if file else link[0]

    # A cell with nothing but a short name does not break.
    content = re.sub(r"<td>(?=<code>[^<]{1,44}</code></td>)", '<td class="name">', content)
    if 'id="explain-form"' in content:
        # Other pages do not load it.
        script = files.get_file_from_path("site/explain.js").url_relative_to(page.file)
        content += f'<script src="{script}" defer></script>'
    return re.sub(r'href="((?:\.\./)*(?:[\w.-]+/)*[\w-]+/?(?:#[^"]*)?)"', resolved, content)


STYLE = [
    'graph [bgcolor=transparent fontname="sans-serif" fontsize=12 style=rounded labelloc=b]',
    'node [shape=box style=rounded fontname="sans-serif" fontsize=12]',
    'edge [fontname="sans-serif" fontsize=11 arrowsize=0.7]',
]
NODE = r'(\w+)(?:(\(\[|\[)"?([^"\[\]]*)"?(?:\]\)|\]))?'
EDGE = r"\s*(-->|-\. (?:.*?) \.->|-- (?:.*?) -->)\s*"


def picture(chart, page):
    """Draws a flowchart of Mermaid: nodes, arrows with and without text, subgraphs. Anything else is an error."""
    first, *lines = [line.strip() for line in chart.splitlines() if line.strip()]
    direction = {"TD": "TB", "LR": "LR", "RL": "RL"}[first.removeprefix("flowchart ")]
    drawn = []
    for line in lines:
        if line == "end":
            drawn.append("}")
        elif group := re.fullmatch(r'subgraph (\w+) ?\["([^"]*)"\]', line):
            drawn.append(f"subgraph cluster_{group[1]} {{ label={quoted(group[2])}")
        else:
            drawn.append(statement(line, page))
    dot = "\n".join(["digraph {", f"rankdir={direction}", *STYLE, *drawn, "}"])
    svg = subprocess.run(["dot", "-Tsvg"], input=dot, capture_output=True, text=True, check=True).stdout
    svg = re.sub(r"<title>.*?</title>|<!--.*?-->", "", svg[svg.index("<svg"):], flags=re.S)
    # On a narrow screen it shrinks to two thirds, and then scrolls.
    svg = re.sub(r'width="(\d+)pt"', lambda width: f'{width[0]} style="min-width:{int(width[1]) * 2 // 3}pt"', svg, count=1)
    svg = svg.replace('"black"', '"currentColor"').replace("<text ", '<text fill="currentColor" ')
    return '<div class="picture">' + svg.replace("\n", "") + "</div>\n"


def statement(line, page):
    parts = re.split(EDGE, line)
    names, drawn = [], []
    for node in parts[::2]:
        found = re.fullmatch(NODE, node)
        if not found:
            raise PluginError(f"{page.file.src_uri}: the site cannot draw this line of a flowchart: {line}")
        name, kind, label = found.groups()
        names.append(name)
        if kind:
            drawn.append(f"{quoted(name)} [label={quoted(label)} shape={'ellipse' if kind == '([' else 'box'}]")
    for start, arrow, end in zip(names, parts[1::2], names[1:]):
        text = arrow.strip("->. ")
        dashed = "style=dashed" if arrow.startswith("-.") else ""
        drawn.append(f"{quoted(start)} -> {quoted(end)} [label={quoted(text)} {dashed}]")
    return "\n".join(drawn)


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace("<br/>", "\\n").replace('"', '\\"') + '"'
