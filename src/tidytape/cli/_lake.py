"""``tidytape lake``: list what is in a lake, check it, and keep it small."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidytape.cli._output import PICTURES, TABLES, Json, check_target, put, put_json
from tidytape.errors import QueryError, counted, escaped

if TYPE_CHECKING:
    import polars as pl


app = typer.Typer(
    help="Look after a lake: list what is in it, check it, keep it small.", no_args_is_help=True
)

LakeOption = Annotated[str, typer.Option("--lake", help="The lake: a folder or an object-store address.")]
Tables = Annotated[list[str] | None, typer.Option("--table", help="Only this table; may be repeated.")]


@app.command()
def info(
    lake: LakeOption,
    by_table: Annotated[
        bool, typer.Option("--tables", help="One line per table, with files and version.")
    ] = False,
    markets: Annotated[
        bool,
        typer.Option("--markets", help="One line per table and market, with the unit of its amounts."),
    ] = False,
    shortest_gap: Annotated[
        str | None,
        typer.Option(
            help="Shortest span without an event that is a gap, e.g. 15m, 3h or 2d; by default an hour, and longer "
            "for a market with rare events."
        ),
    ] = None,
    events: Annotated[
        bool,
        typer.Option(
            "--events",
            help="Find gaps in the events of every table. By default a table of more than 10 million rows is judged "
            "by its rollup, or by its log, which shows only the gaps between files.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="File: .png, .svg or .pdf for a picture; .parquet, .csv or .jsonl for the frame."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what is in a lake, per market and table: from when to when, how many events, and with which gaps.

    --json and --out have a row per data type; types that are made of the same tables have the same numbers.
    """
    from datetime import timedelta

    from tidytape.lake import Lake, hygiene
    from tidytape.lake.hygiene._gaps import MOST_ROWS
    from tidytape.query._values import milliseconds
    from tidytape.service.answer._holdings import described

    check_target(out, suffixes=TABLES if by_table or markets else (*TABLES, *PICTURES))
    if by_table and markets:
        raise QueryError("by_table", got="--markets too", expected="one of the two")
    if by_table or markets:
        coverage = hygiene.markets(Lake(lake)) if markets else hygiene.info(Lake(lake))
    else:
        shortest = None
        if shortest_gap is not None:
            shortest = timedelta(milliseconds=milliseconds(shortest_gap, "shortest_gap"))
        coverage = described(Lake(lake), quiet=shortest, most_rows=None if events else MOST_ROWS)
    if out is not None and out.suffix in PICTURES:
        from tidytape import plot

        figure = plot.coverage(coverage).ax.get_figure(root=True)
        assert figure is not None  # axes belong to a figure until they are removed
        figure.savefig(out, bbox_inches="tight", dpi=150)
        typer.echo(f"{counted(coverage.height, 'row')} drawn -> {out}", err=True)
    elif out is not None:
        put(coverage, out)
    if as_json:
        put_json(coverage)
    elif out is None:
        rows = coverage if by_table or markets else _per_table(coverage)
        put(rows, None, rest="--json prints all", rows=_MOST_ROWS)
        if (heartbeats := hygiene.recorders(Lake(lake))).height:
            put(heartbeats, None, rest="hygiene.recorders(lake) has all", rows=_MOST_ROWS)


def _per_table(coverage: pl.DataFrame) -> pl.DataFrame:
    """Merge the rows of the data types of a market that are computed from the same tables; times in whole seconds."""
    import polars as pl

    # All option types of a coin are computed from its chain, so they share the row of the coin.
    symbol = pl.when(tables="option_quotes").then("coin").otherwise("raw_symbol").alias("raw_symbol")
    times = pl.col("first_timestamp", "last_timestamp").dt.truncate("1s")
    by_table = coverage.select("exchange", symbol, "tables", times, *_NUMBERS).unique(maintain_order=True)
    # If no market has a gap, the longest gap is null in every row, and the terminal would show it as unknown.
    return by_table.drop("longest_gap") if (by_table["gaps"] == 0).all(ignore_nulls=False) else by_table


_MOST_ROWS = 200  # that the terminal shows
_NUMBERS = ("rows", "gaps", "longest_gap", "gaps_from")


@app.command()
def check(
    lake: LakeOption,
    table: Tables = None,
    checks: Annotated[
        list[str] | None, typer.Option("--check", help="Only this check; may be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Read all rows of a lake and print what is wrong; exit code 1 if anything is."""
    from tidytape.lake import Lake, hygiene

    report = hygiene.check(Lake(lake), tables=table, checks=checks)
    if as_json:
        put_json(report.frame())
    else:
        typer.echo(escaped(str(report), keep="\n"))
    if not report.sound:
        raise typer.Exit(1)


@app.command("set")
def set_facts(
    lake: LakeOption,
    heatmap_exchange: Annotated[
        str,
        typer.Option("--heatmap-exchange", help="Exchange of liquidation heatmaps whose query names none."),
    ],
    as_json: Json = False,
) -> None:
    """Set what a lake says of itself."""
    from tidytape.lake import Lake

    Lake(lake).writer().name_heatmap_exchange(heatmap_exchange)
    if as_json:
        put_json({"heatmap_exchange": heatmap_exchange})
    else:
        typer.echo(
            escaped(f"liquidation heatmaps are of {heatmap_exchange} unless a query names an exchange")
        )


@app.command()
def rename(
    exchange: Annotated[str, typer.Argument(help="The exchange.")],
    old: Annotated[str, typer.Argument(help="The symbol until then.")],
    new: Annotated[str, typer.Argument(help="The symbol since then.")],
    at: Annotated[
        str, typer.Option(help="When: ISO 8601 or epoch seconds; UTC if it has no zone.", show_default=False)
    ],
    lake: LakeOption,
    replace: Annotated[bool, typer.Option("--replace", help="Correct an earlier renaming.")] = False,
    as_json: Json = False,
) -> None:
    """Say that an exchange went on with a market under another symbol."""
    import polars as pl

    from tidytape.lake import Lake

    opened_lake = Lake(lake)
    opened_lake.writer().rename(exchange, old, new, at=at, replace=replace)
    markets = opened_lake.markets().filter(exchange=exchange, raw_symbol=old)
    columns = ("exchange", "raw_symbol", "renamed_to")
    frame = markets.select(*columns, pl.from_epoch("renamed_at", "ns").dt.replace_time_zone("UTC"))
    put_json(frame) if as_json else put(frame, None)


@app.command()
def compact(
    lake: LakeOption,
    table: Tables = None,
    everything: Annotated[
        bool, typer.Option("--everything", help="Also rewrite markets that have few files.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Merge many small files into few, sorted by time; the rows stay the same."""
    from tidytape.lake import Lake, hygiene

    reports = hygiene.compact(Lake(lake), tables=table, everything=everything)
    if as_json:
        put_json(reports)
        return
    for report in reports:
        typer.echo(escaped(str(report), keep="\n"))
    if not reports:
        typer.echo("nothing to compact")


@app.command()
def keep(
    lake: LakeOption,
    retention_hours: Annotated[
        int | None,
        typer.Option(min=0, help="Hours for which older versions can be read; by default a week (168)."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Do what a lake needs every hour: merge small files, run the rollup, delete what is no longer needed."""
    from tidytape.lake import Lake, hygiene

    reports = hygiene.keep(Lake(lake), retention_hours=retention_hours)
    if as_json:
        put_json(reports)
        return
    for report in reports:
        typer.echo(escaped(str(report)))
    if not reports:
        typer.echo("nothing to do")


@app.command()
def close(
    lake: LakeOption,
    exchange: Annotated[str, typer.Option(help="Close the recording of this exchange.")],
    raw_symbol: Annotated[
        str | None, typer.Option(help="Only this market; for an option chain, its coin.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say that a recording is over, so that the last interval of its markets is final."""
    import polars as pl

    from tidytape.lake import Lake

    closed = Lake(lake).writer().close_recording(exchange, raw_symbol)
    frame = pl.DataFrame(closed, ["raw_symbol", "last_timestamp"], orient="row").select(
        pl.lit(exchange).alias("exchange"),
        "raw_symbol",
        pl.from_epoch("last_timestamp", "ns").dt.replace_time_zone("UTC"),
    )
    put_json(frame) if as_json else put(frame, None)


@app.command()
def vacuum(
    lake: LakeOption,
    table: Tables = None,
    retention_hours: Annotated[
        int | None,
        typer.Option(min=0, help="Keep files that were replaced within this time; by default a week (168)."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete them.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would be deleted, as without --yes.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Delete files that no version of the last week needs; without --yes only list them."""
    from tidytape.lake import Lake, hygiene

    reports = hygiene.vacuum(
        Lake(lake), tables=table, retention_hours=retention_hours, dry_run=dry_run or not yes
    )
    if as_json:
        put_json(reports)
        return
    for report in reports:
        typer.echo(escaped(str(report), keep="\n"))
    if not yes and any(report.files for report in reports):
        typer.echo("nothing was deleted; --yes deletes", err=True)
