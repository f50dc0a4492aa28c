"""The forms in which strangers bring a column, and what a function must make of each.

`kind_of` says what a column is, and `FORMS` says how else such a column may come. `form_cells` has the calls, and
`form_law` the verdict. ``python tests/analytics/forms.py`` prints how many cells there are (a form of a column that a
function reads, on an engine) and how many fail; ``--write`` writes those that fail to ``forms_failing.txt``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import polars as pl
import polars.selectors as cs

from tidytape.catalogue import Interval

__all__ = ["ENGINES", "FORMS", "IN_MEMORY", "RENAMED", "Form", "cleaned", "has_amounts", "kind_of", "lengths"]

IN_MEMORY = ("polars", "pandas")
ENGINES = (*IN_MEMORY, "polars lazy", "duckdb")

Verdict = Literal["equal", "refused", "either", "accepted", "unknown unit", "total kept", "others kept"]
Change = Callable[[pl.Series], pl.Series | None]


@dataclass(frozen=True)
class Form:
    """One way in which a column may come.

    Attributes
    ----------
    kind, name : str
        What the column is, and what this way is called.
    verdict : str
        What the answer must be: that of the clean frame; a refusal; either of them; for an interval accepted; for an
        amount unit refused or null; for an unknown side one that keeps the total volume; for an unknown number one
        that says the same of all other markets, or null.
    fed : callable
        Turns the clean column into the one that is fed; None where the form does not apply.
    clean : callable
        Turns the clean column into the one with which the answer is right, where the form has other values.
    words : sequence of str
        The refusal must have one of these words.
    pandas : str
        The type of the column in pandas, where it is not that of `polars.DataFrame.to_pandas`.
    pace : Fraction
        Factor by which all times are stretched when the column is fed.
    """

    kind: str
    name: str
    verdict: Verdict
    fed: Change
    clean: Change = field(default=lambda column: column)
    words: Sequence[str] = ()
    pandas: str = ""
    pace: Fraction = Fraction(1)


def _mapped(words: Mapping[str, str]) -> Change:
    return lambda column: column.replace_strict(words, default=None, return_dtype=pl.String)


def _one(word: Any) -> Change:
    """In one row, the middle one of those that have a value, something else."""

    def change(column: pl.Series) -> pl.Series | None:
        rows = column.is_not_null().arg_true()
        if rows.is_empty():
            return None
        return column.scatter(int(rows[len(rows) // 2]), word)

    return lambda column: change(column.clone())


def _where(applies: Callable[[pl.Series], bool], change: Change) -> Change:
    return lambda column: change(column) if applies(column) else None


def _cast(dtype: Any) -> Change:
    return lambda column: column.cast(dtype)


def _enum(column: pl.Series) -> pl.Series:
    return column.cast(pl.Enum(sorted({"none of them", *column.drop_nulls()}, reverse=True)))


def _text(column: pl.Series) -> pl.Series:
    return column.cast(pl.String)


def _decimal(column: pl.Series) -> pl.Series:
    return column.cast(pl.Decimal(38, 12))


def _is_float(column: pl.Series) -> bool:
    return column.dtype.is_float()


_NUMBER = [
    Form("number", "Decimal", "equal", _decimal, lambda column: _decimal(column).cast(column.dtype)),
    Form(
        "number",
        "float32",
        "equal",
        _where(_is_float, _cast(pl.Float32)),
        lambda column: column.cast(pl.Float32).cast(pl.String).cast(pl.Float64),
    ),
    Form(
        "number",
        "integers",
        "equal",
        _where(lambda column: _is_float(column) and bool((column.round() == column).all()), _cast(pl.Int64)),
    ),
    Form("number", "NaN in a row", "equal", _where(_is_float, _one(float("nan"))), _one(None)),
    Form("number", "Float64 of pandas", "equal", _where(_is_float, _one(None)), _one(None), pandas="Float64"),
    Form("number", "null in a row", "others kept", _where(_is_float, _one(None))),
    Form("number", "text", "refused", _text),
    Form("number", "boolean", "refused", lambda column: column > 0),
]


def _until_ms(column: pl.Series) -> pl.Series:
    return column.dt.truncate("1ms")


def _until_s(column: pl.Series) -> pl.Series:
    return column.dt.truncate("1s")


def _time(name: str, verdict: Verdict, fed: Change, *words: str) -> Form:
    return Form("time", name, verdict, lambda column: fed(_until_ms(column)), _until_ms, words)


def _counted(unit: Any, factor: int = 1) -> Change:
    return lambda column: column.dt.timestamp(unit).cast(pl.Int64) // factor


_TIME = [
    *(_time(f"datetime {unit}", "equal", _cast(pl.Datetime(unit, "UTC"))) for unit in ("ms", "us", "ns")),  # type: ignore[arg-type]
    *(
        _time(zone, "equal", lambda column, zone=zone: column.dt.convert_time_zone(zone))
        for zone in ("America/New_York", "Asia/Tokyo")
    ),
    _time("int64 ns", "equal", _counted("ns")),
    _time("int64 us", "refused", _counted("us"), "microsecond"),
    _time("int64 ms", "refused", _counted("ms"), "millisecond"),
    Form("time", "int64 s", "refused", _counted("ms", 1000), _until_s, ["second"]),
    _time("without zone", "refused", lambda column: column.dt.replace_time_zone(None)),
    _time("text", "refused", lambda column: column.dt.to_string("iso")),
    _time("float ns", "refused", lambda column: column.dt.timestamp("ns").cast(pl.Float64)),
]


def _words(kind: str, sides: Sequence[str], spellings: Mapping[str, Sequence[str]]) -> list[Form]:
    """Forms of a column of two words: each spelling equals the word; a category of any kind does."""
    return [
        *(
            Form(kind, name, "equal", _mapped(dict(zip(sides, words, strict=True))))
            for name, words in spellings.items()
        ),
        Form(kind, "categorical", "equal", _cast(pl.Categorical())),
        Form(kind, "enum", "equal", _enum),
    ]


_SIDES = ("BUY", "SELL")
_BOOK_SIDES = ("BID", "ASK")
_OPTION_TYPES = ("CALL", "PUT")
_TRADE_SIDE = [
    *_words(
        "trade side",
        _SIDES,
        {
            "buy, sell": ("buy", "sell"),
            "Buy, Sell": ("Buy", "Sell"),
            "b, s": ("b", "s"),
            "B, S": ("B", "S"),
        },
    ),
    Form("trade side", "N in a row", "equal", _one("N"), _one(None)),
    Form("trade side", "null in a row", "total kept", _one(None)),
    Form("trade side", "bid, ask", "refused", _mapped(dict(zip(_SIDES, ("ask", "bid"), strict=True)))),
    Form("trade side", "A in a row", "refused", _one("A"), words=["A"]),
    Form("trade side", "a word that is none", "refused", _one("maker"), words=["maker"]),
]
_BOOK_SIDE = [
    *_words(
        "book side",
        _BOOK_SIDES,
        {"bid, ask": ("bid", "ask"), "Bid, Ask": ("Bid", "Ask"), "b, a": ("b", "a"), "B, A": ("B", "A")},
    ),
    Form("book side", "buy, sell", "either", _mapped(dict(zip(_BOOK_SIDES, _SIDES, strict=True)))),
    Form("book side", "a word that is none", "refused", _one("neither"), words=["neither"]),
]
_OPTION_TYPE = [
    *_words(
        "option type",
        _OPTION_TYPES,
        {
            "call, put": ("call", "put"),
            "Call, Put": ("Call", "Put"),
            "C, P": ("C", "P"),
            "c, p": ("c", "p"),
            "CE, PE": ("CE", "PE"),
        },
    ),
    Form("option type", "a word that is none", "refused", _one("straddle"), words=["straddle"]),
]


def _length_in(nanoseconds: int) -> Change:
    return lambda column: column.cast(pl.Int64) // nanoseconds


_LENGTH = [
    *(
        Form("length", f"Duration {unit}", "equal", _cast(pl.Duration(unit)) if unit == "ns" else as_duration)
        for unit, as_duration in (
            ("ns", None),
            ("us", lambda column: column.cast(pl.Duration("ns")).cast(pl.Duration("us"))),
            ("ms", lambda column: column.cast(pl.Duration("ns")).cast(pl.Duration("ms"))),
        )
    ),
    Form("length", "int64 ns", "equal", _cast(pl.Int64)),
    Form("length", "float ns", "either", lambda column: column.cast(pl.Int64).cast(pl.Float64)),
    Form("length", "hours", "refused", _length_in(3_600 * 10**9)),
    Form("length", "seconds", "refused", _length_in(10**9)),
    Form("length", "milliseconds", "refused", _length_in(10**6)),
    Form("length", "text", "refused", lambda column: _length_in(3_600 * 10**9)(column).cast(pl.String) + "h"),
]


def lengths(factor: Fraction = Fraction(1)) -> dict[str, int]:
    """Return the length of each interval of the service, times a factor. [s]"""
    return {interval.value: int(interval.seconds * factor) for interval in Interval}


def _short(seconds: int) -> str:
    """The shortest word of a length, such as ``3d``."""
    for unit, letter in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds % unit == 0:
            return f"{seconds // unit}{letter}"
    return f"{seconds}s"


def _paced(name: str, factor: Fraction) -> Form:
    words = {word: _short(seconds) for word, seconds in lengths(factor).items() if 0 < seconds <= 604_800}
    return Form(
        "interval",
        name,
        "accepted",
        _where(lambda column: set(column.drop_nulls()) <= set(words), _mapped(words)),
        pace=factor,
    )


_INTERVAL = [
    Form("interval", "1h", "equal", _mapped({interval.value: interval.alias for interval in Interval})),
    Form(
        "interval",
        "hour",
        "equal",
        _mapped({interval.value: interval.value.lower() for interval in Interval}),
    ),
    Form(
        "interval",
        "1H",
        "equal",
        _mapped({interval.value: interval.alias.upper().replace("M", "min") for interval in Interval}),
    ),
    Form(
        "interval",
        "60min",
        "equal",
        _mapped({interval.value: f"{interval.seconds // 60}min" for interval in Interval}),
    ),
    Form("interval", "categorical", "equal", _cast(pl.Categorical())),
    _paced("twice as long", Fraction(2)),
    _paced("thrice as long", Fraction(3)),
    _paced("a sixth as long", Fraction(1, 6)),
    Form("interval", "fortnight in a row", "refused", _one("fortnight"), words=["fortnight"]),
]
_AMOUNT_UNIT = [
    Form("amount unit", "categorical", "equal", _cast(pl.Categorical())),
    Form("amount unit", "coin, usd", "either", lambda column: column.str.to_lowercase()),
    Form("amount unit", "CONTRACTS", "unknown unit", lambda column: column.str.replace("^.*$", "CONTRACTS")),
    Form("amount unit", "LOTS", "unknown unit", lambda column: column.str.replace("^.*$", "LOTS")),
]
FORMS: dict[str, list[Form]] = {
    forms[0].kind: forms
    for forms in (
        _NUMBER,
        _TIME,
        _TRADE_SIDE,
        _BOOK_SIDE,
        _OPTION_TYPE,
        _LENGTH,
        _INTERVAL,
        _AMOUNT_UNIT,
    )
}

# --- what a column is ---

_ORDERS = {
    "sequence",
    "last_id",
    "first_id",
    "since_id",
    "until_id",
    "block",
    "block_id",
    "row",
    "n",
    "place",
}
"""Whole numbers that order or name rows, and count nothing."""
_NAMED = {
    "option_type": "option type",
    "funding_interval": "length",
    "interval": "interval",
    "amount_unit": "amount unit",
}
_AMOUNTS = {"volume", "buy_volume", "amount", "size", "liquidations", "open", "close", "marketcap"}
RENAMED = "renamed_"
"""Before the name of a column that an argument names."""


def has_amounts(frame: pl.DataFrame) -> bool:
    """Return whether a frame has a column of amounts, which an amount unit describes."""
    return bool(_AMOUNTS & set(frame.columns))


def kind_of(frame: pl.DataFrame, name: str) -> str | None:
    """Return what a column is, a key of `FORMS`; None for words that name a market and for what orders rows."""
    bare, dtype = name.removeprefix(RENAMED), frame.schema[name]
    if bare == "side":
        is_book = bool({"BID", "ASK"} & set(frame[name].drop_nulls()))
        return "book side" if is_book else "trade side"
    if bare in _NAMED:
        return _NAMED[bare]
    if isinstance(dtype, pl.Datetime):
        return "time"
    if isinstance(dtype, pl.Duration):
        return "length"
    return "number" if dtype.is_numeric() and bare not in _ORDERS else None


_KNOWN_WORDS: dict[str, Collection[str]] = {
    "side": {*_SIDES, *_BOOK_SIDES},
    "option_type": _OPTION_TYPES,
    "interval": [interval.value for interval in Interval],
}
_ALIASES = {interval.alias: interval.value for interval in Interval}


def cleaned(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame of a case without what is unclean on purpose: words that are none, NaN and infinity are null."""
    frame = frame.with_columns(
        cs.categorical().cast(pl.String),
        cs.float().fill_nan(None),
    ).with_columns(pl.when(cs.float().is_finite()).then(cs.float()))
    for name, words in _KNOWN_WORDS.items():
        if name in frame.columns:
            word = pl.col(name).cast(pl.String).replace(_ALIASES if name == "interval" else {})
            frame = frame.with_columns(pl.when(word.is_in(list(words))).then(word).alias(name))
    if "funding_interval" in frame.columns:
        frame = frame.with_columns(pl.col("funding_interval").cast(pl.Int64))
    return frame


def _is_asked(room: str, function: str, names: Sequence[str]) -> bool:
    return not names or room in names or function in names


def main() -> None:
    """Print the table of kinds, forms and engines, with the number of cells and of those that fail."""
    from analytics.form_cells import ROOMS, functions
    from analytics.form_law import failing, write

    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*", help="rooms or functions, such as aggregate or flow.delta")
    parser.add_argument("--engine", action="append", choices=ENGINES)
    parser.add_argument("--why", action="store_true", help="print why each cell fails")
    parser.add_argument("--write", action="store_true", help="write the cells that fail")
    asked = parser.parse_args()
    engines = asked.engine or list(ENGINES)
    # The market of the pictures takes seconds to make.
    rooms = [room for room in ROOMS if room != "plot" or not asked.names or "plot" in " ".join(asked.names)]
    calls = [(room, name) for room in rooms for name in functions(room) if _is_asked(room, name, asked.names)]
    cells: Counter[tuple[str, str, str]] = Counter()
    reasons: dict[str, str] = {}
    for room, function in calls:
        print(f"# {function}", file=sys.stderr, flush=True)
        for engine in engines:
            counts, broken = failing(room, function, engine)
            cells.update({(*key, engine): number for key, number in counts.items()})
            reasons |= broken
    fails = Counter((*line.split(" | ")[:3],) for line in reasons)
    print("| kind | form | " + " | ".join(engines) + " |\n| --- | --- |" + " --- |" * len(engines))
    for kind, forms in FORMS.items():
        for form in forms:
            keys = [(kind, form.name, engine) for engine in engines]
            texts = [f"{cells[key]}, {fails[key]}" if cells[key] else "" for key in keys]
            print(f"| {kind} | {form.name} | " + " | ".join(texts) + " |")
    print(f"\n{sum(cells.values())} cells of {len(calls)} functions, of which {len(reasons)} fail")
    print(f"{time.process_time():.0f} s of a processor", file=sys.stderr)
    if asked.why:
        for line, reason in reasons.items():
            print(f"{line}\n    {reason}")
    if asked.write:
        write(reasons, [function for _, function in calls], engines)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main()
