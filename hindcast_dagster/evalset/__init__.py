"""Building eval sets: which markets, at which t0, balanced by outcome and topic; vintages."""
