//! Files that survive a crash: replaced as a whole, or extended record by record, with checksums.
//!
//! ```text
//!  preamble: mark, format, salt, checksum
//!  frame 0:  head (kind, length, number, checksums), content
//!  frame 1:  …
//! ```
//!
//! - [`disk`] is a folder of files, behind a trait, so that tests can make every operation fail.
//! - [`frame`] writes and reads frames. Each byte of a file is part of a checksum.
//! - [`sealed`] is a file with one frame, which is replaced as a whole.
//! - [`lock`] gives a folder to one process.
//!
//! Nothing here knows what the files are for.

pub(crate) mod disk;
#[cfg(test)]
pub(crate) mod fake;
pub(crate) mod frame;
pub(crate) mod lock;
pub(crate) mod sealed;

pub(crate) use disk::{Disk, DiskFile, Folder};
pub(crate) use frame::{Broken, Frame, FrameWriter, Frames, Unreadable};
