//! The folder store.
