"""Numbers as products: units take channels and windows in equal parts."""

from __future__ import annotations

from functools import lru_cache
from math import isqrt


@lru_cache(maxsize=4096)  # layers of a network share their sizes
def largest_divisor(number: int, limit: int) -> int:
    """The largest divisor of `number` that is not above `limit`."""
    return next(d for d in range(min(number, limit), 0, -1) if number % d == 0)


def whole_and_rest(count: int, limit: int) -> tuple[int, int]:
    """Two parts of a count that together take the fewest tiles of up to `limit`."""
    rest = count % limit or limit
    return (count - rest, rest) if count > rest else (count - 1, 1)


def is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, isqrt(number) + 1))


def largest_prime_factor(number: int) -> int:
    divisor = 2
    while divisor * divisor <= number:
        number, divisor = (number // divisor, 2) if number % divisor == 0 else (number, divisor + 1)
    return number
