"""Fixtures for all tests."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
from hypothesis import settings

# Before numpy is loaded, and for children: every worker has a core of its own, and threads that
# wait for a part of a small matrix product would take it from the others.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# The same examples every time: a change that breaks a property fails for everybody at once.
settings.register_profile("suite", derandomize=True, deadline=None, database=None)
settings.load_profile("suite")

try:
    import resource  # noqa: F401
except ImportError:  # damaged files are read under limits of memory, which Windows does not have
    collect_ignore = ["fuzz/test_fuzz.py", "differential/test_differential.py"]

if not hasattr(os, "getuid"):  # pytest asks for it on every system but Windows itself
    from _pytest import tmpdir

    tmpdir.get_user_id = lambda: None

SHARED = Path(__file__).parents[1] / ".." / "shared"
SHARED_MODELS = SHARED / "data" / "models"


# What `python -m benchmarks accuracy --fetch` brings.
PUBLIC_MODELS = Path(__file__).parents[1] / "build" / "models"


class PublicModels(type(Path())):  # type: ignore[misc]
    """The folder of fetched models: a test of another one is skipped."""

    def __truediv__(self, name: str) -> Path:
        path = Path(self).joinpath(name)
        if not path.exists():
            pytest.skip(f"{name} is not among the public models")
        return path


@pytest.fixture(scope="session")
def shared_models() -> Path:
    """The folder of real models; tests that need it are skipped where it is absent."""
    if SHARED_MODELS.is_dir():
        return SHARED_MODELS.resolve()
    if PUBLIC_MODELS.is_dir():
        return PublicModels(PUBLIC_MODELS)
    pytest.skip("no models: python -m benchmarks accuracy --fetch brings those that are public")


@pytest.fixture(scope="session")
def vendor_documents() -> Path:
    """The vendors' pages that npuscope follows, as text; skipped where they are absent."""
    folder = (SHARED / "seeds").resolve()
    if not folder.is_dir():
        pytest.skip("the vendors' pages are not on this machine")
    return folder


@pytest.fixture(autouse=True)
def usual_log_level() -> None:
    """A verb sets how much is logged; the next test must not feel it."""
    logging.getLogger("npuscope").setLevel(logging.NOTSET)
