//! oxds-core.
