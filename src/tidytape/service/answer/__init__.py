"""Answers: the markets and tables that a query reads, what reading them costs, and the points computed from them."""
