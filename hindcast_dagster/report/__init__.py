"""Tables, figures and the self-contained HTML report."""
