"""Depth."""

from tidytape.analytics.depth._matrix import LiquidationMatrix, Matrix, liquidation_matrix, matrix

__all__ = ["LiquidationMatrix", "Matrix", "liquidation_matrix", "matrix"]
