//! Versions of files and packages: required bumps (V-21, V-22, V-26), and frozen packages (V-14).
//!
//! ```text
//!   old tree, its versions ─┐                         ┌─► Bump: the required version ─► edits
//!                           ├─► hashes differ? class? ┤
//!   new tree, its versions ─┘                         └─► suggest: the version of the whole tree
//! ```
//!
//! A file has its version in a file option or, in trees that must not be edited, in the [`Lock`].
//! The hash without that option decides whether the version must grow. The class of the change
//! decides how: a breaking change of a stable major needs a new major package, an addition is
//! minor, and a change of options only (looser validation, deprecation, status) is a patch.

mod edit;
mod freeze;
mod lock;
mod range;
mod required;
mod suggest;
mod version;

pub use edit::{Edit, EditError, apply, edits};
pub use freeze::{
    FrozenChange, UnknownPackage, candidates_by_status, changed_since_freeze, freeze,
    frozen_by_status,
};
pub use lock::{LOCK_FILE, Lock, LockError, LockedFile};
pub use range::{VersionRange, ranges};
pub use required::{Bump, Problem, VersionedTree, bumps, first_versions, stale};
pub use suggest::{Suggestion, suggest};
pub use version::{Class, Versions};
