"""The four labels, tallies and scores that the coverage probe and the agent share (paper, section 4.1)."""
