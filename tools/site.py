"""Makes the documentation site out of the pages as they are in the repository; MkDocs calls it.

The pages link to files beside `docs/`, as README and `examples/`, so that the links lead somewhere
in a checkout. The site gets a copy of each of those below `repository/`, and links to that.
"""

import logging
import re
from pathlib import Path
from posixpath import relpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
REPOSITORY = "repository/"
FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()([^)\s#]*)(?=[)#])")
SHALLOW = re.compile(r"^ {1,3}```.*", re.MULTILINE)
LOST_LIST = re.compile(r"<p>[^<]*\n(?:- |\d\. )[^\n]*")
log = logging.getLogger("mkdocs.site")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what the pages link to outside `docs/`, and what is linked from there."""
    waiting = [DOCS / file.src_uri for file in files.documentation_pages()]
    while waiting:
        page = waiting.pop()
        for link in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
            target = (page.parent / link).resolve()
            uri = site_uri(target)
            if "://" in link or not target.is_file() or uri in files.src_uris:
                continue
            files.append(File.generated(config, uri, content=target.read_bytes()))
            if target.suffix == ".md":
                waiting.append(target)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead the links of a page to where the site has their targets."""
    del config, files
    uri = page.file.src_uri
    source = ROOT / uri.removeprefix(REPOSITORY) if uri.startswith(REPOSITORY) else DOCS / uri
    here = site_uri(source).rpartition("/")[0]

    def moved(link: re.Match[str]) -> str:
        target = (source.parent / link[1]).resolve()
        if not link[1] or "://" in link[1] or not target.is_file():
            return link[1]
        return relpath(site_uri(target), here or ".")

    parts, end = [], 0
    for fence in FENCE.finditer(markdown):
        parts += [LINK.sub(moved, markdown[end : fence.start()]), fence.group()]
        end = fence.end()
    return "".join([*parts, LINK.sub(moved, markdown[end:])])


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Warn, which a strict build refuses, of lists that Python-Markdown does not take for one."""
    del config, files
    for lost in LOST_LIST.findall(html):
        log.warning("%s: a list needs an empty line before it: %r", page.file.src_uri, lost)
    for fence in SHALLOW.findall(page.markdown or ""):
        log.warning("%s: a fence in a list needs four spaces: %r", page.file.src_uri, fence)
    return html


def site_uri(path: Path) -> str:
    """Return where the site has a file of the repository."""
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    return REPOSITORY + path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""
