"""Workers: who is alive, how much each may take, and what waits for them."""
