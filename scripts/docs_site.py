"""Hooks of the site (mkdocs.yml): pages from other folders of the repository, and links to its files."""

import re
from pathlib import Path, PurePosixPath
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCES: Final = {"index.md": "README.md", "contributing.md": "CONTRIBUTING.md", "changes.md": "CHANGELOG.md"}
"""pages of the site that are files in the repository's root"""
_LINK: Final = re.compile(r"(?<=\]\()([^)#\s:]+)(#[^)\s]*)?(?=\))")
"""the target of a Markdown link to a file, without a scheme"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from the repository's root."""
    for page, source in SOURCES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, files: Files) -> str:
    """Convert links for the repository to links for the site; links to files that are no pages go to the repository."""
    name = page.file.src_uri
    folder = PurePosixPath() if name in SOURCES else PurePosixPath("docs")
    source = SOURCES.get(name, f"docs/{name}")
    url = f"{config.repo_url}/blob/main/"

    def target(link: re.Match[str]) -> str:
        path, anchor = resolved(folder / link[1]), link[2] or ""
        if not (ROOT / path).exists():
            raise PluginError(f"{source}: there is no {path}")
        if path in SOURCES.values():
            return next(page for page, root in SOURCES.items() if root == path) + anchor
        if path.startswith("docs/"):
            return path.removeprefix("docs/") + anchor
        return url + path + anchor

    return _LINK.sub(target, markdown)


def resolved(path: PurePosixPath) -> str:
    """Return the path without ``..``, from the repository's root."""
    parts: list[str] = []
    for part in path.parts:
        if part != "..":
            parts.append(part)
        elif parts:
            parts.pop()
    return "/".join(parts)
