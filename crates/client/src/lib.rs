//! oxds-client.
