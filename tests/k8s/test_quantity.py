"""Quantities are read exactly and as Kubernetes reads them."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8s.quantity import parse_quantity, whole


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("2", Fraction(2)),
        ("500m", Fraction(1, 2)),
        ("440Gi", Fraction(440 * 2**30)),
        ("1.5G", Fraction(1_500_000_000)),
        (".5", Fraction(1, 2)),
        ("1e3", Fraction(1000)),
        ("2E-1", Fraction(1, 5)),
        ("1E", Fraction(10**18)),
        (3, Fraction(3)),
    ],
)
def test_every_notation_is_read(text: str | int, amount: Fraction) -> None:
    assert parse_quantity(text) == amount


@pytest.mark.parametrize("text", ["400Gigs", "", "1 Gi", "Gi", "1GB", "0x10", "1,5"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no Kubernetes quantity"):
        parse_quantity(text)


@given(st.integers(min_value=0, max_value=10**9))
def test_whole_rounds_up(millis: int) -> None:
    assert whole(f"{millis}m") == -(-millis // 1000)
