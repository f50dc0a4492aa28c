"""The main job from end to end: simulated trades into a lake, a query answered over it, analytics, a picture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidytape.demo import market
from tidytape.demo.lake import fill

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Journey", "journey"]

_EXCHANGE, _SYMBOL = "DEMO_SPOT", "BTCUSDT"
_START, _END = "2024-08-08", "2024-08-09"


@dataclass(frozen=True)
class Journey:
    """What the demo made.

    Attributes
    ----------
    lake, candles, profile, picture : Path
        Where each lies.
    summary : polars.DataFrame
        One row per market: its trades, candles, volume [coin] and value area [quote per coin] of the demo's last day.
    """

    lake: Path
    candles: Path
    profile: Path
    picture: Path
    summary: pl.DataFrame

    def __str__(self) -> str:
        """Return the table and where everything lies."""
        import polars as pl

        with pl.Config(tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True, float_precision=1):
            table = str(self.summary)
        places = [
            ("lake", self.lake),
            ("candles", self.candles),
            ("profile", self.profile),
            ("picture", self.picture),
        ]
        return "\n".join([table, *(f"{name:<8} {path}" for name, path in places)])


def journey(out: str | Path, *, progress: bool = True) -> Journey:
    """Run the main job on the demo's market.

    Parameters
    ----------
    out : path
        Folder for the results; made if it is not there. What an earlier run left is used again or replaced.
    progress : bool
        Show a progress bar on standard error.

    Returns
    -------
    Journey
        Paths and a summary; printed, it is the demo's output.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     journey(folder, progress=False).summary.columns
    ['exchange', 'raw_symbol', 'trades', 'candles', 'volume', 'val', 'poc', 'vah']
    """
    from tqdm.auto import tqdm

    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    made = Journey(
        folder / "lake",
        folder / "candles.parquet",
        folder / "volume_profile.parquet",
        folder / "profile.png",
        _nothing(),
    )
    steps = ("simulate and store", "serve and fetch", "analyse", "draw")
    with tqdm(
        total=len(steps),
        disable=not progress,
        bar_format="{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} {desc}",
    ) as bar:
        bar.set_description_str(steps[0])
        fill(made.lake)
        bar.update()

        bar.set_description_str(steps[1])
        candles, profile = _fetch(made.lake)
        candles.write_parquet(made.candles)
        profile.write_parquet(made.profile)
        bar.update()

        bar.set_description_str(steps[2])
        summary = _summary(made.lake, candles, profile)
        bar.update()

        bar.set_description_str(steps[3])
        _draw(candles, profile, made.picture)
        bar.update()
    return Journey(made.lake, made.candles, made.profile, made.picture, summary)


def _nothing() -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame()


def _fetch(lake: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Ask the service over the lake, as any client would."""
    from tidytape.client import Client

    venues = market.markets()["exchange"].to_list()
    with Client.local(lake) as client:
        candles = client.candles(exchange=venues, coin="BTC", interval="5m", start=_START, end=_END)
        profile = client.volume_profile(exchange=venues, coin="BTC", interval="1d", start=_START, end=_END)
    return candles, profile


def _summary(lake: Path, candles: pl.DataFrame, profile: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    from tidytape.analytics.profile import value_area
    from tidytape.lake import Lake

    key = ["exchange", "raw_symbol"]
    areas = value_area(profile, by=key).select(*key, "val", "poc", "vah")
    counts = candles.group_by(key).agg(candles=pl.len(), volume=pl.col("volume").sum())
    trades = Lake(lake).scan("trades").group_by(key).agg(trades=pl.len()).collect()
    as_text = [pl.col(name).cast(pl.String) for name in key]
    return (
        trades.join(counts.with_columns(as_text), on=key)
        .join(areas.with_columns(as_text), on=key)
        .select(*key, "trades", "candles", "volume", "val", "poc", "vah")
        .sort(key)
    )


def _draw(candles: pl.DataFrame, profile: pl.DataFrame, picture: Path) -> None:
    import polars as pl

    from tidytape import plot

    here = (pl.col("exchange") == _EXCHANGE) & (pl.col("raw_symbol") == _SYMBOL)
    plot.candles_with_profile(candles.filter(here), profile.filter(here)).figure.savefig(picture)
