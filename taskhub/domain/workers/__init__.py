"""Workers: which are alive, how much each takes, and what waits for them."""
