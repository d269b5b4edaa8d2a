"""Programs that maintain the book; none of them is needed to read or to build it."""
