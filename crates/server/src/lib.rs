//! oxds-server.
