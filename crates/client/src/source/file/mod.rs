//! File sources: a file of resources that is read when it changes.
//!
//! `spec` describes the source; `feed` reads the file, `changes` detects changes. These two need the feature `file`.

#[cfg(feature = "file")]
mod changes;
#[cfg(feature = "file")]
mod feed;
#[cfg(feature = "file")]
mod peer;
mod spec;

pub use spec::File;
