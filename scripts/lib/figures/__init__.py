"""The figures of the pages, each a function from what the code says to a Drawing."""
