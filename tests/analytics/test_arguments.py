"""Arguments of every function: what is none is refused by a typed error, and numpy's are as Python's own."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from analytics.overriding import FIRST, answer, function, parameters
from tables import each_row
from tidytape.errors import MissingColumnError, QueryError

ARGUMENTS = [(name, parameter) for name in FIRST for parameter in parameters(name)]
REFUSALS = (QueryError, MissingColumnError)

NOWHERE = [
    object(),
    1j,
    float("nan"),
    Decimal("sNaN"),
    10**400,
    Decimal("1e400"),
    pd.NaT,
    np.datetime64("NaT"),
]
NOWHERE += [b"x", [None], [b"x"], [["exchange"]], [{}], [float("nan")], np.array([["exchange"]])]
"""What no argument of any function can be."""

ODD = [
    [],
    {},
    {"x": 1},
    {1, 2},
    "",
    "^.*$",
    pd.NA,
    pl.Series([1, 2]),
    0,
    -1,
    5e-324,
    1e308,
    int,
    timedelta.max,
]
ODD += [np.array([]), np.array(1.0), np.array([1.0, 2.0]), np.array(["x", "y"])]
"""What most cannot be, and some can."""


def said(value: Any) -> str:
    return f"{type(value).__name__} {value!r:.40}"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tidytape.errors.NoMatchWarning")  # an exchange that is not there
@pytest.mark.filterwarnings("ignore::tidytape.errors.GapWarning")  # a window longer than the frame
@pytest.mark.parametrize("name", FIRST)
def test_what_can_be_no_argument_is_refused_and_what_is_odd_fails_in_no_other_way(name: str) -> None:
    taken = []
    for parameter in parameters(name):
        is_flag = signature(function(name)).parameters[parameter].annotation == "bool"
        refused = [*NOWHERE, *([] if is_flag else [True, False, np.True_])]
        for value in (*refused, *ODD):
            try:
                answer(name, **{parameter: value})
            except REFUSALS:
                continue
            except Exception as error:
                error.add_note(f"{parameter}={said(value)}")
                raise
            if any(value is forbidden for forbidden in refused):
                taken.append(f"{parameter}={said(value)}")
    assert not taken


TWINS = [(2, np.int64(2)), (25, np.uint8(25)), (0.5, np.float32(0.5))]


@pytest.mark.long
@pytest.mark.parametrize(("name", "parameter"), ARGUMENTS)
def test_numbers_of_numpy_are_as_python_says_them(name: str, parameter: str) -> None:
    for own, other in TWINS:
        try:
            wanted = answer(name, **{parameter: own})
        except REFUSALS:
            with pytest.raises(REFUSALS):
                answer(name, **{parameter: other})
            continue
        got = answer(name, **{parameter: other})
        if isinstance(wanted, pl.DataFrame):
            assert_frame_equal(got, wanted, check_exact=True)
        else:
            assert type(got) is type(wanted)


def test_there_are_numbers_that_numpy_may_say() -> None:
    assert answer("depth.regrid", block_size=np.float32(0.1)).equals(answer("depth.regrid", block_size=0.1))
    assert answer("flow.delta", by=np.array(["exchange"])).equals(answer("flow.delta", by="exchange"))
    assert answer("options.smile", wings=np.True_).equals(answer("options.smile", wings=True))


@each_row(
    ("name", "wrong", "message"),
    [
        ("flow.delta", {"by": 5}, "missing column 5; the frame has 'exchange'"),
        ("flow.delta", {"by": [["exchange"]]}, r"missing column \['exchange'\]; the frame has"),
        ("flow.delta", {"volume": 5}, "missing column 5; the frame has"),
        ("cross.market_share", {"amount": 5}, "amount: got 5, expected the name of a column"),
        ("pit.asof_join", {"suffix": True}, "suffix: got True, expected a text"),
        ("depth.matrix", {"prices": []}, "prices: got .*, expected a lowest and a highest price"),
        ("depth.matrix", {"block_size": True}, "block_size: got True, expected a positive finite number"),
        ("flow.liquidation_imbalance", {"sampled": "0.7"}, "sampled: got '0.7', expected True or False"),
        ("options.smile", {"steps": 10**9}, "steps: got 1000000000, expected a whole number from 1 to 10000"),
        ("profile.developing", {"block_minutes": 1e9}, "block_minutes: got .*, expected at most a year"),
        ("pit.known_at", {"delay": timedelta.max}, "delay: got .*, expected at most 73 years"),
        (
            "funding.accrued",
            {"settled_every": timedelta.max},
            "settled_every: got .*, expected at most 73 years",
        ),
    ],
)
def test_the_error_says_what_is_wrong(name: str, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(REFUSALS, match=f"^{message}"):
        answer(name, **wrong)
