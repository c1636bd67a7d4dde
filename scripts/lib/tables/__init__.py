"""The tables of the pages, each a function from results to the lines of Markdown. tables.py says
which is called what."""
