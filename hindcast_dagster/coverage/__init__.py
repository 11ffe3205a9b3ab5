"""The coverage probe: did the corpus discuss the event before it resolved? (paper, section 4.1)."""
