"""Runs to look at: one self-contained HTML file, and the same charts for notebooks.

``evidence`` turns runs into columns, ``charts`` draws them, ``overview`` compares runs part by part, and
``page`` writes the file. In the browser ``assets/report.js`` counts what is filtered, as
:func:`fathom.studies.report.charts.counted` does in Python.
"""
