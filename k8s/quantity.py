"""Kubernetes quantities ("500m", "440Gi", "2") as exact numbers."""

import re
from fractions import Fraction
from math import ceil

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_PATTERN = re.compile(r"^([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d+)|([numkMGTPE]|[KMGTPE]i|))$")


def parse_quantity(quantity: str | int | float) -> Fraction:
    """The exact amount. Raises ValueError for what Kubernetes would not read either."""
    match = _PATTERN.match(str(quantity))
    if match is None:
        raise ValueError(f"{quantity!r} is no Kubernetes quantity such as 500m, 2 or 440Gi")
    number, exponent, suffix = match.groups()
    if exponent is not None:
        return Fraction(number) * Fraction(10) ** int(exponent)
    if suffix in _BINARY:
        return Fraction(number) * Fraction(2) ** _BINARY[suffix]
    return Fraction(number) * Fraction(10) ** _DECIMAL[suffix]


def whole(quantity: str | int | float) -> int:
    """The amount rounded up, as KubeRay reads CPUs, bytes and devices."""
    return ceil(parse_quantity(quantity))
