"""Frames of any engine: how they come in and go out, and what engines do not do alike.

What `tidytape.aggregate` and `tidytape.analytics` share, so that each of their functions is written once for polars,
pandas, pyarrow, DuckDB and PySpark. A room for those who work on tidytape; users of it need nothing in here.

- `door`: frames of pandas and pyarrow become polars, and go back as what they were. Nothing else knows them.
- `doors`: what a frame must have to come in.
- `table`: the same with its times as whole nanoseconds, whatever the engine calls a time, and its categories as text.
- `units`: what amounts count and how high levels are.
- `words`: categories as text, and back.
- `buckets`: the interval that a time lies in.
- `grid`: the row of blocks that a price lies in.
- `steps`: lengths of intervals, and buckets of any length.
- `exact`: sums that do not depend on the order of rows.
- `neighbours`: the time of the row before or after.
- `runs`: where rows with the same keys begin that follow each other.
- `ordered`: the first and the last value of a group.
- `spread`: a row per whole number of a range.
- `between`: what is linear between a row and its next one.
- `normal`: the normal distribution.
- `crossed`: every row with every one of some numbers.
- `joined`: points joined to one, by whatever they have in common.
- `members`: the members of a series joined to it.
- `weighted`: means by weight.
"""
