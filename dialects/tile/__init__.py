"""The tile level: loops over tiles as data. What lowers or costs them does not live here."""
