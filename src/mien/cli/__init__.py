"""The command line: each command parses its arguments, makes one call and prints the result."""
