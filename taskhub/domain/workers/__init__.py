"""Workers: which are alive, which tasks each of them holds, and the queue."""
