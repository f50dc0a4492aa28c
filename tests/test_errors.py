"""The error tree: as it is drawn, and whole after a trip to another process."""

from __future__ import annotations

import pickle
import re

import pytest

from tables import each_row
from tidytape import errors
from tidytape.errors import (
    AuthenticationError,
    BudgetError,
    CallError,
    CertificateError,
    DecodeError,
    FetchError,
    ForkError,
    IncompleteDataError,
    IngestError,
    LakeError,
    MissingColumnError,
    ProxyError,
    QueryError,
    RateLimitError,
    RefusedQueryError,
    ServerError,
    ServiceError,
    StreamGapError,
    TapeError,
    TidytapeError,
    TierError,
    TransportError,
    UnknownNameError,
    nearest,
)

SERVICE_FACTS = {"code": "C", "url": "http://127.0.0.1/v1/points", "weight": 3, "request_id": "r1"}

ONE_OF_EACH = [
    TidytapeError("no"),
    QueryError("interval", got="2m", expected="one of 1m, 5m", hint="did you mean '1m'?"),
    CallError("symbol", got="BTC", expected="raw_symbol"),
    UnknownNameError("no"),
    ForkError(),
    ServiceError("no", status=418, **SERVICE_FACTS),
    AuthenticationError("no", status=401, **SERVICE_FACTS),
    TierError("no", status=403, **SERVICE_FACTS),
    RateLimitError("no", retry_after=1.5, status=429, **SERVICE_FACTS),
    ServerError("no", status=503, retry_after=2.0, **SERVICE_FACTS),
    TransportError("no", url="http://127.0.0.1"),
    BudgetError("no", weight=300, available=200),
    DecodeError("no", data_type="TRADE_AGG", series="X", point=7, length=4),
    IncompleteDataError("no", missing=((0, 60), (120, 180))),
    MissingColumnError(["volume"], available=["price"]),
    IngestError("no", path="a.csv", line=3, bad_lines=1),
    LakeError("no", path="lake"),
    StreamGapError("no", data_types=("TRADE",), over={}, token="t"),
    TapeError("no", path="study.tape", entries=(3,)),
    CertificateError("no", url="https://127.0.0.1"),
    ProxyError("no", url="https://127.0.0.1"),
    FetchError("no"),
    RefusedQueryError("coin", got="X", expected="a coin of the lake"),
]


def drawn_tree() -> dict[str, tuple[str, str | None]]:
    """Name -> (parent, second base) as the docstring draws it."""
    tree: dict[str, tuple[str, str | None]] = {}
    above = ["TidytapeError"]
    for line in (errors.__doc__ or "").splitlines():
        drawn = re.match(r"^    ((?:│   |    )*)[├└]── (\w+)(?: \(also an? (\w+)\))?  +\S", line)
        if drawn:
            depth = len(drawn[1]) // 4 + 1
            tree[drawn[2]] = (above[depth - 1], drawn[3])
            above[depth:] = [drawn[2]]
    return tree


def real_tree() -> dict[str, tuple[str, str | None]]:
    kinds = [getattr(errors, name) for name in errors.__all__]
    return {
        kind.__name__: (
            kind.__bases__[0].__name__,
            kind.__bases__[1].__name__ if kind.__bases__[1:] else None,
        )
        for kind in kinds
        if isinstance(kind, type) and issubclass(kind, TidytapeError) and kind is not TidytapeError
    }


def test_docstring_draws_the_real_tree() -> None:
    assert drawn_tree() == real_tree()


def test_one_of_each_is_one_of_each() -> None:
    assert {type(error).__name__ for error in ONE_OF_EACH} == {*real_tree(), "TidytapeError"}


@each_row("error", ONE_OF_EACH)
def test_pickle_keeps_kind_message_and_facts(error: TidytapeError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.args == error.args
    assert vars(again) == vars(error)


BUILTINS = {
    QueryError: ValueError,
    CallError: TypeError,
    UnknownNameError: AttributeError,
    ForkError: RuntimeError,
    MissingColumnError: KeyError,
}


@pytest.mark.parametrize(("kind", "builtin"), BUILTINS.items())
def test_caught_as_the_builtin_users_expect(kind: type[TidytapeError], builtin: type[Exception]) -> None:
    error = next(error for error in ONE_OF_EACH if type(error) is kind)
    with pytest.raises(builtin):
        raise error


def test_missing_column_reads_as_a_sentence() -> None:
    # A KeyError shows the repr of its message; ours shows the message.
    assert str(MissingColumnError(["a", "b"], available=[])) == "missing columns 'a', 'b'; the frame has none"


def test_query_error_cuts_what_it_shows_short() -> None:
    error = QueryError("coin", got="x" * 500, expected="a coin")
    assert len(str(error)) < 200
    assert error.got == "x" * 500


@pytest.mark.parametrize(
    ("word", "expected"),
    [("INTERVALL", "interval"), ("raw_simbol", "raw_symbol"), ("zzz", None), ("", None)],
)
def test_nearest(word: str, expected: str | None) -> None:
    assert nearest(word, ["interval", "raw_symbol", "side"]) == expected


def test_a_column_that_no_string_names_breaks_no_suggestion() -> None:
    error = MissingColumnError(["close"], available=[("BTC", "close"), 5, "clos"])  # type: ignore[list-item]
    assert "did you mean 'clos'?" in str(error)


def test_a_message_shows_controls_of_direction_escaped() -> None:
    class Foreign:
        def __repr__(self) -> str:
            return "a\u202eb\nc"

    error = QueryError("na\u2066me", got=Foreign(), expected="a text")
    assert str(error) == r"na\u2066me: got a\u202eb\nc, expected a text"
