"""Answers: the markets and tables that a query reads, how much that takes, and the points that are made of them."""
