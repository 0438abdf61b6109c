"""Pull and push: hubs, their checks, and everything that knows huggingface_hub.

No other room imports huggingface_hub. `session` lists what an operation changes in the client, and
restores it.
"""
