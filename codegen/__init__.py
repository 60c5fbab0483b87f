"""Generate models and types of tables from the pinned schemas.

Runs from a checkout with ``python -m codegen``; nothing in ``src`` imports this package. The
modules, in the order in which they work when a protocol has moved:

- `refresh` gets the packages of new versions (`fetch`, `progress`), and puts their schemas into
  ``schema/`` (`bundles`, `pinned`, `swap`).
- `drift` reports the changes: `drift_compare` finds them, `drift_judge` says what each needs, by
  the code that `drift_ours` reads, and `drift_render` prints them.
- `regen` generates. `codex` and `acp` read a schema into the IR (`ir`), with `patches`, `flatten`,
  `normalise` and `naming`; ``overrides/`` has the decisions about names, results and modules.
  `older` adds what older versions of Codex send, `stability` marks what is unstable.
- `render` writes the text of each file. Most files are a template of ``templates/``; the bodies of
  models come from `models` and `rewrite` (classes) and `aliases` (all others), those of core
  schemas from `words`. `split` chooses the module of each definition. `fitting` tries the result.
- `coverage` lists the decisions that handwritten code then lacks: rows of tables (`tables`), arms
  of matches (`arms`), names that are gone (`exposure`), and samples of tests (`beside`).
  `true_rows` compares the routing table with the routes of all samples (`route_catalogue`).

Commands of their own: `stubs`, `tool_pins`, `binaries` and `fixtures`.
"""
