"""Audits that prove from the traces that nothing from the future got in."""
