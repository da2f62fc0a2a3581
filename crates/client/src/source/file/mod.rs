//! File sources: a file of resources that is read when it changes.
//!
//! This file describes the source; `feed` reads the file, `changes` detects changes.

mod changes;
mod feed;
mod spec;

pub(super) use feed::FileFeed;
pub use spec::File;
