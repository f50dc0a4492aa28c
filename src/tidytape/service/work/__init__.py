"""Where answers are computed: whose turn it is, in a thread or a process, within bounds of time and memory."""
