"""Frames of any engine: how they come in and go out, and what engines do not do alike.

What `tidytape.aggregate` and `tidytape.analytics` share, so that each of their functions is written once for polars,
pandas, pyarrow, DuckDB and PySpark. A room for those who work on tidytape; users of it need nothing in here.

- `door`: frames of pandas and pyarrow become polars, and go back as what they were. Nothing else knows them.
- `table`: a caller's frame opened for work, its times as whole nanoseconds, its categories as text; and closed again.
- `times`: times as nanoseconds since the epoch on every engine.
- `buckets`: the interval that a time lies in.
- `grid`: the row of blocks that a price lies in.
- `ordered`: first and last row of a group, the row before and after, where a run of equal keys begins.
- `exact`: sums that do not depend on the order of rows.
- `joined`: points of one key joined to one, and means by weight.
- `members`: the members of a series joined to it.
- `numbers`: a row per whole number of a range, or per number of a list.
- `units`: what amounts count and how high levels are.
- `sources`: which call returns a frame with some columns, for the hint of an error.
"""
