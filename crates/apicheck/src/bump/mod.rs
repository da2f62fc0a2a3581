//! Versions of files, and whether they follow what changed (V-21, V-22, V-26), and packages that
//! must not change any more (V-14).
//!
//! ```text
//!   old tree, its versions ─┐                         ┌─► Bump: the version it must have ─► edits
//!                           ├─► hashes differ? class? ┤
//!   new tree, its versions ─┘                         └─► suggest: the version of the whole tree
//! ```
//!
//! A file has its version in an option of its own or, in trees that must not be edited, in the
//! [`Lock`] beside them. The hash without that option decides whether it must grow, and the class of
//! what changed decides which part: a breaking change of a stable major is answered by a new major
//! package and by no version; additions are minor; what only touches options (looser validation,
//! deprecation, status) is a patch.

mod edit;
mod freeze;
mod judge;
mod lock;
mod range;
mod suggest;
mod version;

pub use edit::{CannotEdit, Edit, apply, edits};
pub use freeze::{
    FrozenChange, UnknownPackage, candidates_by_status, changed_since_freeze, freeze,
    frozen_by_status,
};
pub use judge::{Bump, Problem, Side, bumps, first_versions, stale};
pub use lock::{LOCK_FILE, Lock, LockError, Locked};
pub use range::{Range, ranges};
pub use suggest::{Suggestion, suggest};
pub use version::{Class, Versions};
