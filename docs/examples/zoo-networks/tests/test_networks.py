"""The laws of the contract, for every network of this package."""

from zoo.testing import conformance

test_pooled = conformance("pooled")
test_experts = conformance("experts")
test_masked = conformance("masked")
test_prefix = conformance("prefix")
test_modern = conformance("modern")
test_luong = conformance("luong")
test_context = conformance("context")
test_speech = conformance("speech")
