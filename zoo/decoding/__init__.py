"""Search: from an encoder's memory to hypotheses, through the contract's `step`."""
