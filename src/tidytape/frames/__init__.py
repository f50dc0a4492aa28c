"""Frames of any engine: how they come in and go out, and what engines do differently.

`tidytape.aggregate` and `tidytape.analytics` share this room, so that each of their functions is written once for
polars, pandas, pyarrow, DuckDB and PySpark. It is for those who work on tidytape; users need nothing in here.

- `_door`: frames of pandas and pyarrow become polars frames, and results are converted back. Only it knows them.
- `_dialects`: what DuckDB and Spark say in their own SQL; the one place that asks which of them a frame belongs to.
- `_table`: a caller's frame opened for work, its times as nanoseconds, its categories as text; and closed again.
- `_times`: times as nanoseconds since the epoch on every engine, and the interval that a time lies in.
- `_grid`: the row of blocks that a price lies in.
- `_rows`: first, last and next rows, where a run of equal keys begins, and rows repeated for each of several numbers.
- `_exact`: sums that do not depend on the order of rows.
- `_joined`: points of several members combined into one, means by weight, and last known values.
- `_units`: checks of what amounts count and how high levels are.
- `_sources`: which calls return a frame with some columns, for the hint of an error.
"""
