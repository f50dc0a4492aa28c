"""What an answer is: which markets and tables a query reads, how much that is, and the points computed of them."""
