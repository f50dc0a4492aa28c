"""Of chains and of summaries."""

from __future__ import annotations

from analytics.cases import options_summaries

CASES = options_summaries.CASES
