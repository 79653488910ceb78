"""Data sets of natural sentences from a folder of texts and lists of entities.

The pipeline of LIPID (Shaier et al., EACL 2024, section 3.2.3), for any field:

1. records of corpora (``corpora``, ``documents``, ``markup``, ``pubmed``);
2. sentences that name one entity (``entities``, ``names``, ``sentences``) and do not give it away (``leaks``);
3. a folder in Fathom's own format (``build``);
4. a sample for two reviewers (``review``).
"""
