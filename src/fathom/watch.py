"""What a model knows while it trains; ``from fathom.watch import KnowledgeCallback`` (:mod:`fathom.api.watch`)."""

from fathom.api.watch import KnowledgeCallback, evaluate, sample_facts

__all__ = ["KnowledgeCallback", "evaluate", "sample_facts"]
