"""``tidytape demo``: the main job from end to end, on a simulated market."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Journey", "demo", "journey"]

_EXCHANGE, _SYMBOL = "DEMO_SPOT", "BTCUSDT"
_START, _END = "2024-08-08", "2024-08-09"


@dataclass(frozen=True)
class Journey:
    """The files that the demo wrote, and a summary of them.

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
        """Return the summary as a table, and the paths."""
        import polars as pl

        with pl.Config(tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True, float_precision=1):
            table = str(self.summary)
        paths = [f"{name:<8} {getattr(self, name)}" for name in ("lake", "candles", "profile", "picture")]
        return "\n".join([table, *paths])


def demo(
    out: Annotated[
        Path, typer.Option(help="Folder for the lake, the frames and the picture; made if need be.")
    ],
) -> None:
    """Simulate two venues, store, serve, fetch, analyse and draw them."""
    typer.echo(journey(out))


def journey(out: str | Path, *, progress: bool = True) -> Journey:
    """Run the main job on the demo's market.

    Parameters
    ----------
    out : path
        Folder for the results; made if it is not there. The results of an earlier run are used again or replaced.
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

    from tidytape.demo import fill

    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    lake, picture = folder / "lake", folder / "profile.png"
    candles_file, profile_file = folder / "candles.parquet", folder / "volume_profile.parquet"
    with tqdm(
        total=4, disable=not progress, bar_format="{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} {desc}"
    ) as bar:
        bar.set_description_str("simulate and store")
        fill(lake, days=2)
        bar.update()

        bar.set_description_str("serve and fetch")
        candles, profile = _fetch(lake)
        candles.write_parquet(candles_file)
        profile.write_parquet(profile_file)
        bar.update()

        bar.set_description_str("analyse")
        summary = _summary(lake, candles, profile)
        bar.update()

        bar.set_description_str("draw")
        _draw(candles, profile, picture)
        bar.update()
    return Journey(lake, candles_file, profile_file, picture, summary)


def _fetch(lake: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Fetch candles and a volume profile from a service over the lake, as any client would."""
    from tidytape.client import Client

    exchanges = ["DEMO_PERP", "DEMO_SPOT"]
    with Client.local(lake) as client:
        candles = client.candles(exchange=exchanges, coin="BTC", interval="5m", start=_START, end=_END)
        profile = client.volume_profile(exchange=exchanges, coin="BTC", interval="1d", start=_START, end=_END)
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

    market = (pl.col("exchange") == _EXCHANGE) & (pl.col("raw_symbol") == _SYMBOL)
    plot.candles_with_profile(candles.filter(market), profile.filter(market)).figure.savefig(picture)
