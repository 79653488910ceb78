"""Plans: many runs, the studies of them, and a report, from one command.

- :mod:`~fathom.plans.steps`: one run of a plan, made once and resumed where it stopped;
- :mod:`~fathom.plans.runner`: runs the steps here, in processes, on a Ray cluster, or as one of several commands;
- :mod:`~fathom.plans.file`: PLAN.yaml, read and checked, with :mod:`~fathom.plans.content` and
  :mod:`~fathom.plans.studies`;
- :mod:`~fathom.plans.record`: what each run was made of, by which changes are noticed;
- :mod:`~fathom.plans.forecast`: the state of each run and the work that is left, for ``--dry-run``;
- :mod:`~fathom.plans.execution`: the whole plan, its studies and its report;
- :mod:`~fathom.plans.presets`: plans without models, such as those of papers, filled in;
- :mod:`~fathom.plans.tables`: tables numbered as in a paper, next to the paper's own values, with
  :mod:`~fathom.plans.wide`;
- :mod:`~fathom.plans.kinds`: kinds of runs, and presets, that other packages may add.
"""
