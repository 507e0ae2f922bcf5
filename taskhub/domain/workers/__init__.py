"""Workers: which of them are alive, which tasks each holds, and the queue."""
