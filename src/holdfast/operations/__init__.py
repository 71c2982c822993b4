"""Operator verbs, each once and free of presentation; background duties; doctor."""
