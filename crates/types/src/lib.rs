//! oxds-types.
