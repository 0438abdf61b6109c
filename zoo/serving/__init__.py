"""The HTTP server and its page: checkpoints by name, dynamic batching, worker processes."""
