"""A data set of natural sentences from a folder of texts and lists of entities.

The pipeline of LIPID (Shaier et al., EACL 2024, section 3.2.3), for any field: records (``medline``, ``corpora``, the
latest of each by ``occurrences``) → sentences that name one entity (``entities``, ``sentences``) and do not say it
otherwise (``leaks``, with ``kinship`` and ``abbreviations``) → a folder in Fathom's own format (``build``) → a sample
for two people (``review``).
"""
