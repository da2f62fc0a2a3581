//! Shared strings: names of elements, paths of files, texts.

use std::sync::Arc;

/// A string that many elements share.
pub type Name = Arc<str>;
