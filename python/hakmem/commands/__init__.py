"""Commands that are loaded only when they are called, so that `run` starts quickly."""
