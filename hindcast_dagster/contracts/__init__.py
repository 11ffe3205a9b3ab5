"""One module per table: its schema, primary key, order and expectation suite. `table` holds what they share."""
