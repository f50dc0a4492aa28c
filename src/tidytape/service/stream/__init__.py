"""Streams of points: history, and then what is new.

One stream goes through these files: `http` (the route), `streams` (who may open one), `reader` (what one caller is
sent), `part` (one part of history, computed like an answer), `feed` (the live part of a query, computed once for all
its readers), `changes` (the difference between two moments of the lake), `tokens` (where a stream stands). The
decisions are docs/adr/0034 and docs/adr/0044. A worker loads what computes parts, and no web framework.
"""
