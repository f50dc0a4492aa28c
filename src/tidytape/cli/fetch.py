"""``tidytape fetch`` and ``tidytape markets``: from a service or straight from a lake, to a file or the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidytape.cli.output import check_target, put
from tidytape.errors import QueryError

if TYPE_CHECKING:
    import polars as pl

    from tidytape.client import Client

__all__ = ["app", "markets"]

app = typer.Typer(help="Fetch a tidy frame.", no_args_is_help=True)

Lake = Annotated[str | None, typer.Option(help="Answer from this lake, in this process.")]
BaseUrl = Annotated[
    str | None, typer.Option(envvar="TIDYTAPE_BASE_URL", help="Or ask the service at this address.")
]
ApiKey = Annotated[
    str | None,
    typer.Option(
        envvar="TIDYTAPE_API_KEY", show_envvar=True, help="Key of the service; better in the environment."
    ),
]
Exchange = Annotated[list[str], typer.Option(help="Venue; may be repeated.")]
RawSymbol = Annotated[list[str] | None, typer.Option(help="Exchange-native symbol; may be repeated.")]
Coin = Annotated[list[str] | None, typer.Option(help="Base asset, instead of a symbol; may be repeated.")]
Normalized = Annotated[
    list[str] | None, typer.Option(help="Cross-exchange symbol, instead; may be repeated.")
]
Category = Annotated[list[str] | None, typer.Option(help="SPOT, PERPETUAL, ...; may be repeated.")]
Interval = Annotated[str, typer.Option(help="1m 5m 15m 30m 1h 4h 1d 1w")]
Start = Annotated[str, typer.Option(help="Start, inclusive: ISO 8601 or epoch seconds; no zone means UTC.")]
End = Annotated[str, typer.Option(help="End, exclusive: ISO 8601 or epoch seconds; no zone means UTC.")]
Out = Annotated[Path | None, typer.Option(help="File ending in .parquet, .csv or .jsonl; else the terminal.")]
Descending = Annotated[bool, typer.Option("--descending", help="Newest first.")]


def _client(lake: str | None, base_url: str | None, api_key: str | None) -> Client[pl.DataFrame]:
    from tidytape.client import Client

    if lake is None and base_url is None:
        raise QueryError("lake", got=None, expected="a lake, or base_url and a key of a service")
    return Client.local(lake) if lake is not None else Client(base_url, api_key)


@app.command()
def candles(
    exchange: Exchange,
    interval: Interval,
    start: Start,
    end: End,
    raw_symbol: RawSymbol = None,
    coin: Coin = None,
    normalized_symbol: Normalized = None,
    category: Category = None,
    by_side: Annotated[bool, typer.Option("--by-side", help="One series per aggressor side.")] = False,
    side: Annotated[str | None, typer.Option(help="Keep BUY or SELL.")] = None,
    descending: Descending = False,
    out: Out = None,
    lake: Lake = None,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Fetch candles."""
    check_target(out)
    with _client(lake, base_url, api_key) as client:
        frame = client.candles(
            exchange=exchange,
            interval=interval,
            start=start,
            end=end,
            raw_symbol=raw_symbol,
            coin=coin,
            normalized_symbol=normalized_symbol,
            category=category,
            by_side=by_side,
            side=side,
            sort_direction="desc" if descending else "asc",
        )
    put(frame, out)


@app.command()
def volume_profile(
    exchange: Exchange,
    interval: Interval,
    start: Start,
    end: End,
    raw_symbol: RawSymbol = None,
    coin: Coin = None,
    normalized_symbol: Normalized = None,
    category: Category = None,
    block_size: Annotated[
        str | None, typer.Option(help="Height of a price level; else the service chooses.")
    ] = None,
    descending: Descending = False,
    out: Out = None,
    lake: Lake = None,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Fetch the volume traded at each price level."""
    check_target(out)
    with _client(lake, base_url, api_key) as client:
        frame = client.volume_profile(
            exchange=exchange,
            interval=interval,
            start=start,
            end=end,
            raw_symbol=raw_symbol,
            coin=coin,
            normalized_symbol=normalized_symbol,
            category=category,
            block_size=block_size,
            sort_direction="desc" if descending else "asc",
        )
    put(frame, out)


def markets(
    exchange: Annotated[list[str] | None, typer.Option(help="Venue; may be repeated.")] = None,
    coin: Coin = None,
    category: Category = None,
    search: Annotated[str | None, typer.Option(help="Part of a symbol or name.")] = None,
    out: Out = None,
    lake: Lake = None,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
) -> None:
    """List markets."""
    check_target(out)
    with _client(lake, base_url, api_key) as client:
        frame = client.markets(exchange=exchange, coin=coin, category=category, symbol_filter=search)
    put(frame, out)
