"""For tests of havasu-vc and of what is built on it: contract suites, data, kernels."""
