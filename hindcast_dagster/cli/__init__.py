"""The command line: one module per group of commands, each a shell over the library."""
