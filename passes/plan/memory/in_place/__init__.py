"""Which values take the memory of others: who owns it, who may write over it."""
