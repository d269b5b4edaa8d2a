"""Public-domain verse as plain text, read by `lib.data.poems`."""
