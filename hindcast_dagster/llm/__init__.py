"""Language models behind one async protocol: backends, roster, scheduling, reply parsing."""
