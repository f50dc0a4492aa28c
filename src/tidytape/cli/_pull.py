"""``tidytape pull``: market data of an exchange's own API, through ccxt, into a lake."""

from __future__ import annotations

from typing import Annotated

import typer

from tidytape.cli._output import Json, put, put_json


def pull(
    exchange: Annotated[str, typer.Argument(help="The exchange in ccxt, e.g. bybit.")],
    symbols: Annotated[
        list[str],
        typer.Argument(help="Symbols of ccxt: BTC/USDT is a spot market, BTC/USDT:USDT a perpetual."),
    ],
    lake: Annotated[str, typer.Option("--lake", help="The lake; made if there is none.")],
    data: Annotated[
        str, typer.Option(help="Any of candles, funding, open_interest and trades, with commas between them.")
    ] = "candles",
    interval: Annotated[str, typer.Option(help="Length of the candles.")] = "1m",
    since: Annotated[
        str, typer.Option(help="Start of the window, inclusive: a time, or a duration before now.")
    ] = "30d",
    until: Annotated[
        str | None, typer.Option(help="End of the window, exclusive, in the same forms; now if left out.")
    ] = None,
    amount_unit: Annotated[
        str | None,
        typer.Option(
            help="What amounts of contracts count: coin, quote or contracts; asked for if ccxt does not say it."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Put candles, funding, open interest or trades of an exchange into a lake, through ccxt.

    It prints what the lake has of each market, and every hole. Run it again to go on. It needs tidytape[ccxt].
    """
    from tidytape.archives import pull as pull_into

    names = [name.strip() for name in data.split(",")]
    result = pull_into(
        exchange,
        symbols,
        lake=lake,
        data=names,
        interval=interval,
        since=since,
        until=until,
        amount_unit=amount_unit,
    )
    put_json(result) if as_json else put(result, None, rest="--json prints all", rows=result.height)
