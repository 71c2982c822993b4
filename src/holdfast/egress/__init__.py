"""Going out: the one engine that claims, delivers and settles, and the deliverers it hands work to."""
