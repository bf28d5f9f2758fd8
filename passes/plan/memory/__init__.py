"""Where values lie: slots, donation, writing in place, and computing again."""
