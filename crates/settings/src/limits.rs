//! Limits of files.

use serde_saphyr::{Budget, Options};

/// Lists and mappings in each other. A bootstrap of Envoy has half as many. One takes up to 40 KiB of the stack in a
/// debug build, and threads have 2 MiB.
pub(crate) const MAX_DEPTH: usize = 40;
/// Lists, mappings and scalars in a file.
pub(crate) const MAX_VALUES: usize = 250_000;

/// Returns the options of the parser.
pub(crate) fn options() -> Options {
    let mut budget = Budget::default();
    budget.max_depth = MAX_DEPTH;
    budget.max_nodes = MAX_VALUES;
    let mut options = Options::default();
    options.with_snippet = false;
    options.budget = Some(budget);
    options
}
