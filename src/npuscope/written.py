"""Which files npuscope wrote: those that it may replace without being asked.

A file is ours if it says so itself, as JSON results and HTML pages do at their beginning, or if it
has the content that we wrote under this name before. Formats of others carry no mark, so that is
recorded in the cache, as one empty file whose name is a digest of path and content.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from npuscope.bounded_file import opened, read_head
from npuscope.cache import cache_folder
from npuscope.errors import FileError

_MARK = re.compile(rb'"schema":\s*"npuscope/|<meta name="generator" content="npuscope">')
_HEAD_BYTES = 4096
_FOLDER = "written"


def is_ours(path: Path, new: Path) -> bool:
    """Whether `new` may take the place of a file: it loses nothing, or it is from us."""
    with contextlib.suppress(FileError, OSError):
        if not path.stat().st_size or _MARK.search(read_head(path, _HEAD_BYTES)):
            return True
        digest = digest_of(path)
        return digest == digest_of(new) or (cache_folder() / _name(path, digest)).exists()
    return False


def record(path: Path, new: Path) -> None:
    """Remember a file before it takes its name; without a cache, only marks tell what is ours."""
    with contextlib.suppress(FileError, OSError):
        note = cache_folder() / _name(path, digest_of(new))
        note.parent.mkdir(mode=0o700, exist_ok=True)
        note.touch()


def digest_of(path: Path) -> str:
    from hashlib import file_digest

    with opened(path) as file:
        return file_digest(file, "sha256").hexdigest()


def _name(path: Path, digest: str) -> str:
    from hashlib import sha256

    return f"{_FOLDER}/{sha256(os.fsencode(path) + digest.encode()).hexdigest()}"
