"""Polymarket: the client, the parser, the outcome rule, prices, rules text."""
