"""Ontologies to probe with, from RDF files or SPARQL endpoints: classes, properties and the memorising tasks.

After Wu et al., *Do PLMs Know and Understand Ontological Knowledge?* (ACL 2023), section 2. The queries are the
files of ``queries/``; docs/howto/build-ontology.md explains them.
"""

from __future__ import annotations

from fathom_build.ontology.build import BuiltOntology, build_ontology, ontology_tables

__all__ = ["BuiltOntology", "build_ontology", "ontology_tables"]
