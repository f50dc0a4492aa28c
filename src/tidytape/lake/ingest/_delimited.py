"""Lines of delimited text to columns of text, with the lines that cannot be split told apart."""

from __future__ import annotations

import io

import polars as pl

from tidytape.lake.ingest._lines import BadLines


def names(width: int) -> list[str]:
    """Return what the columns of a split line are called: by position, for a header may name two alike."""
    return [f"c{position}" for position in range(width)]


def split(
    lines: pl.DataFrame, width: int, delimiter: str, bad: BadLines, *, ragged: bool = False
) -> pl.DataFrame:
    r"""Return the lines split into columns of text.

    Parameters
    ----------
    lines : polars.DataFrame, one row per line
        ``line`` and ``text``, as from `tidytape.lake.ingest._lines.numbered`.
    width : int
        How many columns there are.
    delimiter : str
        One character, not counted inside quotes.
    bad : BadLines
        Takes the lines with more columns, with fewer unless ``ragged``, or with quotes that do not fit.
    ragged : bool
        Whether a line may end early: the columns it lacks are null.

    Returns
    -------
    polars.DataFrame, one row per good line, same order
        ``line`` and the columns named by `names`, without spaces around.

    Examples
    --------
    >>> bad = BadLines()
    >>> split(pl.DataFrame({"line": [1, 2], "text": ['7,"a,b"', "8"]}), 2, ",", bad).rows()
    [(1, '7', 'a,b')]
    >>> bad.first
    [(2, '1 column, and the header has 2')]
    """
    unquoted = pl.col("text").str.replace_all(r'"[^"]*"', "")
    found = unquoted.str.count_matches(delimiter, literal=True) + 1
    reasons = [
        pl.when(unquoted.str.contains('"', literal=True)).then(pl.lit("a quote that does not end")),
        pl.when(found > width).then(pl.lit("more columns than the header")),
    ]
    if not ragged:
        columns = pl.when(found == 1).then(pl.lit("column")).otherwise(pl.lit("columns"))
        reasons.append(
            pl.when(found < width).then(
                pl.format("{} {}, and the header has {}", found, columns, pl.lit(width))
            )
        )
    whole = bad.take(lines.with_columns(reason=pl.coalesce(reasons)))
    good, table = _split(whole, width, delimiter)
    for line in whole.filter(~good)["line"]:
        bad.add(line, "a misplaced quote")
    return table.select(pl.all().str.strip_chars()).insert_column(0, whole.filter(good)["line"])


def _split(lines: pl.DataFrame, width: int, delimiter: str) -> tuple[pl.Series, pl.DataFrame]:
    """Which lines can be split into so many columns, and those lines split; short ones get nulls."""
    table = _read(lines["text"], width, delimiter)
    if table is not None:
        return pl.repeat(value=True, n=lines.height, dtype=pl.Boolean, eager=True), table
    if lines.height == 1:
        nothing = pl.DataFrame(schema=dict.fromkeys(names(width), pl.String))
        return pl.Series([False]), nothing
    half = lines.height // 2
    (good, left), (also_good, right) = (
        _split(part, width, delimiter) for part in (lines[:half], lines[half:])
    )
    return good.append(also_good), left.vstack(right)


def _read(text: pl.Series, width: int, delimiter: str) -> pl.DataFrame | None:
    """All lines split in one pass; None if any has too many columns or is misquoted."""
    header = names(width)
    body = "\n".join([delimiter.join(header), *text, ""])
    quoted = text.str.contains('"', literal=True).any()
    try:
        table = pl.read_csv(
            io.BytesIO(body.encode()),
            separator=delimiter,
            infer_schema=False,
            quote_char='"' if quoted else None,
        )
    except pl.exceptions.PolarsError:
        return None
    return table if table.height == len(text) and table.columns == header else None
