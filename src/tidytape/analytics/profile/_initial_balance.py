"""Initial balance of a session, and what lies beyond it."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics._arguments import one_of
from tidytape.analytics.profile._blocks import block_length, touched_rows
from tidytape.analytics.profile._grid import row_price, step_of
from tidytape.analytics.profile._opening import opened

_MULTIPLES: Final = {"x1_5": 1.5, "x2": 2.0, "x3": 3.0}
EDGES: Final = {"edge": 0.0, "opposite": 1.0}
BALANCE_RESULTS: Final = (
    "initial_balance_high",
    "initial_balance_low",
    "initial_balance_range",
    *(f"extension_{way}_{name}" for way in ("up", "down") for name in _MULTIPLES),
    "is_extended_up",
    "is_extended_down",
    "initial_balance_minutes",
    "extension_from",
)


def initial_balance(
    levels: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    minutes: float = 60,
    block_minutes: float | None = None,
    extension_from: Literal["edge", "opposite"] = "edge",
    row_size: float | Decimal | None = None,
    price: str = "price",
) -> IntoFrameT:
    r"""Initial balance: the range of the blocks that start within the first minutes of a session, and its extensions.

    With the highest and lowest row :math:`H, L` that blocks :math:`b` with :math:`b m < M` touched, :math:`m` being
    the length of a block and :math:`M` the ``minutes``, the extensions by :math:`k = 1.5, 2, 3` are

    .. math:: H + k (H - L), \qquad L - k (H - L)

    measured from the edge they lie behind; or, measured from the opposite edge, so that :math:`k` counts the whole
    range, :math:`L + k (H - L)` and :math:`H - k (H - L)`.

    Parameters
    ----------
    levels : frame, n rows, one per (by, price), or per (by, block, price), any order
        TPO levels that say their blocks: of `tidytape.Client.tpo` (``block_ids``), of `tidytape.aggregate.tpo`
        (``tpo_count``, ``first_touch_block``, ``last_touch_block``), or touches of `tidytape.aggregate.tpo_touches`
        (``block_id``). Blocks count from 0 at the session's start.
    by : str or iterable of str, optional
        The columns that tell one session from another; by default the identity columns there are, ``timestamp``
        and ``period_end``. Null is a value.
    minutes : float, > 0
        Length of the initial balance, from the session's start. [min]
    block_minutes : float, > 0, optional
        Length of a block; by default the column ``block_size_minutes``, which touches lack. [min]
    extension_from : {"edge", "opposite"}
        Where extensions are measured from.
    row_size : float or Decimal, > 0, optional
        The step of the prices: levels are brought to this grid first. Without it the rows are those given. [price]
    price : str
        Column of the levels' prices. [price]

    Returns
    -------
    frame, one row per ``by`` that a block touched, sorted by ``by``, of the kind of ``levels``
        ``by``, and

        - ``initial_balance_high``, ``initial_balance_low``, ``initial_balance_range`` : float64, of the rows (their
          low edges); null where no such block touched any. The service's ``ibr_high`` and ``ibr_low`` are prices of
          trades, and these may lie a row's height higher. [price]
        - ``extension_up_x1_5``, ``extension_up_x2``, ``extension_up_x3``, ``extension_down_x1_5``,
          ``extension_down_x2``, ``extension_down_x3`` : float64. [price]
        - ``is_extended_up``, ``is_extended_down`` : bool, range extension: whether a later block touched a row
          beyond it; null without an initial balance.
        - ``initial_balance_minutes`` [min], ``extension_from`` : the arguments.

    Raises
    ------
    MissingColumnError
        If ``levels`` lacks a column named here.
    QueryError
        If ``levels`` says nothing of blocks or of their length, or an argument is not one of those listed.

    Notes
    -----
    A session with a price that is null or not finite has null in all of it. Until the initial balance is over, it
    still grows.

    References
    ----------
    .. [1] J. F. Dalton, E. T. Jones and R. B. Dalton, "Mind over Markets", 1990, chapter 2.

    Examples
    --------
    >>> import polars as pl
    >>> levels = pl.DataFrame({"timestamp": 0, "price": [10, 11, 12, 13], "block_ids": [[0], [0, 1], [1, 2], [2]]})
    >>> found = initial_balance(levels, block_minutes=30)
    >>> found.select("initial_balance_low", "initial_balance_high", "extension_up_x2", "extension_down_x2").row(0)
    (10.0, 12.0, 16.0, 6.0)
    >>> found.select("is_extended_up", "is_extended_down").row(0)
    (True, False)
    """
    minutes = arguments.positive("minutes", minutes)
    one_of("extension_from", extension_from, EDGES)
    step = step_of(row_size)
    profiles = opened(levels, by, results=BALANCE_RESULTS, numbers={"price": price}, blocks=True, step=step)
    rows = touched_rows(profiles, price, step, block_length(profiles, block_minutes))
    found = balances(rows, profiles.keys, step, minutes=minutes)
    return profiles.closed(
        found.select(*profiles.keys, **balance_columns(minutes=minutes, extension_from=extension_from))
    )


def balances(
    rows: nw.LazyFrame[Any], keys: list[str], step: Fraction | None, *, minutes: float
) -> nw.LazyFrame[Any]:
    """Return one row per session of `touched_rows`: its keys, and the ends of it, its balance and its last block."""
    rows = rows.with_columns(
        at=nw.when("known").then(row_price(step)), last_block=nw.col("last").max().over(keys)
    )
    is_early = nw.col("first") * nw.col("block_length") < minutes
    # Without the length of a block nobody knows what is early.
    has_length = ~nw.col("block_length").is_null().max().over(keys)
    rows = rows.with_columns(
        early=nw.when(is_early, has_length).then(nw.col("at")),
        late=nw.when(nw.col("last") == nw.col("last_block")).then(nw.col("at")),
    )
    names = {"at": "touched", "early": "balance", "late": "last"}
    return rows.group_by(*keys).agg(
        *(nw.col(name).max().alias(f"{part}_high") for name, part in names.items()),
        *(nw.col(name).min().alias(f"{part}_low") for name, part in names.items()),
    )


def balance_columns(*, minutes: float, extension_from: str) -> dict[str, nw.Expr]:
    """Return what is published of `balances`."""
    high, low = nw.col("balance_high"), nw.col("balance_low")
    width = high - low
    back = EDGES[extension_from]
    return {
        "initial_balance_high": high,
        "initial_balance_low": low,
        "initial_balance_range": width,
        **{f"extension_up_{name}": high + (multiple - back) * width for name, multiple in _MULTIPLES.items()},
        **{
            f"extension_down_{name}": low - (multiple - back) * width for name, multiple in _MULTIPLES.items()
        },
        "is_extended_up": nw.col("touched_high") > high,
        "is_extended_down": nw.col("touched_low") < low,
        "initial_balance_minutes": nw.lit(minutes),
        "extension_from": nw.lit(extension_from),
    }
