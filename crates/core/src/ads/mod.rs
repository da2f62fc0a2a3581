//! The client's machine: one per xDS server.
