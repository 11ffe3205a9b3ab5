"""One Forecaster interface: zero-shot, the retrieval agent, baselines; the runner, its journal and traces."""
