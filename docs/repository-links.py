"""Preprocessor of mdBook: links to files that are not in the book become links to the repository."""

import json
import posixpath
import re
import sys

REPOSITORY = "https://github.com/oxds/oxds/blob/main/"


def chapters(items):
    for item in items:
        if "Chapter" in item:
            yield item["Chapter"]
            yield from chapters(item["Chapter"]["sub_items"])


def repaired(chapter, pages):
    """Returns the text of a chapter whose relative links lead to a page of the book, or to the repository."""
    folder = posixpath.dirname(f"docs/{chapter['path']}")

    def link(found):
        path = posixpath.normpath(posixpath.join(folder, found.group(1)))
        return found.group(0) if path in pages else f"]({REPOSITORY}{path}"

    return re.sub(r"\]\((?![a-z]+:|#)([^)\s#]+)", link, chapter["content"])


if sys.argv[1:2] == ["supports"]:
    sys.exit(0)
_context, book = json.load(sys.stdin)
listed = [chapter for chapter in chapters(book.get("items") or book["sections"]) if chapter["path"]]
pages = {f"docs/{chapter['path']}" for chapter in listed}
for chapter in listed:
    chapter["content"] = repaired(chapter, pages)
json.dump(book, sys.stdout)
