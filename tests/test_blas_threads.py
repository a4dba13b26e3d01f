"""Matrix products take one thread inside, and as many as before outside."""

from __future__ import annotations

import pytest

from npuscope.blas_threads import _threads, one_thread


def test_one_thread_inside_and_the_former_number_outside() -> None:
    threads = _threads()
    if threads is None:
        pytest.skip("numpy computes products with another library")
    before = threads.get()
    threads.set(2)
    try:
        with pytest.raises(KeyError), one_thread():
            assert threads.get() == 1
            raise KeyError
        assert threads.get() == 2
    finally:
        threads.set(before)
