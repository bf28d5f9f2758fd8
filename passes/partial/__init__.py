"""Programs that equal another one at most positions: nothing here runs or plans them."""
