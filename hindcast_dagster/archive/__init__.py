"""Month tables, the cutoff, search and look-ups: the five tools behind `archive.at(t0)`."""
