//! What a server serves: immutable, persistent, encoded once.
