//! The pure part of a store of documents: documents by id and bytes become merged, checked resources.
//!
//! ```text
//!  id, bytes ──DocumentDecoder──▶ Document ──┐
//!  (in parallel, if you like)                ├─ Edits ──▶ Documents ──▶ Update: changes, groups, findings, origin
//!  ids of deleted documents ─────────────────┘            │
//!                                                         ├─ ownership: each name belongs to one document
//!                                                         └─ references: each must lead to a resource
//! ```
//!
//! Nothing here reads a file, a clock or a socket, so a store for another source of documents is a watch loop that
//! feeds [`Documents`]. The id of a document is a path or a key below one root. Its ending tells the format (`.yaml`,
//! `.json`, `.pb`, …), and `groups/<name>/` below the root makes it part of a group of nodes (S-74).
//!
//! A document that fails changes nothing: its last valid resources stay served until it is fixed or deleted, and the
//! other documents of the same [`Edits`] still apply (S-73).
//!
//! ```
//! use std::path::Path;
//! use oxds_server::store::documents::{Documents, DocumentOptions, Edits};
//!
//! let mut documents = Documents::new(Path::new("config"), DocumentOptions::default());
//! let yaml = "\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: blue\n";
//! let document = documents.decoder().decode(Path::new("config/a.yaml"), yaml.as_bytes());
//! let update = documents.apply(Edits::default().put(document));
//! assert_eq!(&**update.changes.upserts[0].name(), "blue");
//!
//! let update = documents.apply(Edits::default().delete(Path::new("config/a.yaml")));
//! assert_eq!(&*update.changes.removals[0].1, "blue");
//! ```

mod changes;
mod conflicts;
mod document;
mod group;
mod merge;
mod ownership;
mod references;
mod state;
mod strict;
#[cfg(test)]
mod tests;

pub use document::{Document, DocumentDecoder, DocumentId};
#[cfg(feature = "etcd")]
pub(crate) use group::definition_file as group_definition;
pub use merge::{DocumentOptions, Documents, Edits};
