//! Bound of the checks of invariants in debug builds.

/// Elements of a collection that `is_consistent` looks at. Property tests have fewer, so they check all; tests with
/// many resources stay fast.
pub(crate) const SAMPLE: usize = 64;
