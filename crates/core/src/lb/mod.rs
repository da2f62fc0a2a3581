//! Pure pickers.
