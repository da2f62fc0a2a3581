//! The server's machine: one per stream.
