//! Publisher: the machine that makes one change of one lane, atomically, whatever its size.
//!
//! ```text
//!  Begin ──▶ Read ──▶ (Undo) ──▶ (Want) ──▶ merge ──▶ Verdict ──▶ (WriteFormat) ──▶ Commit ──────────────▶ Done
//!   ▲ │ head names a stage                     │         the caller        │          ▲ │
//!   │ ▼                                        │         validates         ▼ large    │ │ outcome unknown
//!   │ Complete another's                       │                         Stage ───────┘ ▼
//!   │                                          │                                     Check, WalkBack
//!   └── another writer was faster ─────────────┼─────────────────────────────────────┘ │
//!                                              ▼                                       ▼ committed
//!      keys changed by hand: ReadPublished                     Complete (moves) ──▶ Revoke ──▶ Done
//!      a base is given: FindBase, ReadBase
//!      conflicts: Attribute ──▶ Done
//! ```
//!
//! - The wanted state may come later than the reads, which take a while for many entries. Nothing is written before it
//!   is known.
//! - All reads are at one revision. The commit is guarded by the head, so what was validated is what is replaced.
//! - A publish that fits into one transaction is one. A larger one is staged under its id; the commit names the stage
//!   in the head; then each entry is moved to its place. Replicas apply the stage at the commit.
//! - Between commit and moves the writer pauses, so that etcd has time to send the stage to the replicas.
//! - A stage is written under a leased key. If the writer is gone before the commit, the next writer deletes the stage;
//!   after the commit, it completes the moves.
//! - If etcd does not say whether the commit took effect, the writer looks for its id in the head, and in the heads
//!   before.
//!
//! The caller chooses ids and the time, validates the merged state, and does the requests.

mod attribution;
mod completion;
mod dispatch;
mod error;
mod event;
mod failing;
mod machine;
mod options;
mod plan;
mod planning;
mod reading;
mod request;
mod staging;
mod summary;
mod transactions;
mod walk;
mod work;
mod writing;

pub use error::{Conflict, PublishError};
pub use event::{MergedState, PublishEvent, PublishOutcome};
pub use machine::Publisher;
pub use options::{DEFAULT_REQUEST_LIMIT, Foreign, PublishOptions, Wanted};
pub use request::{FailureKind, PublishAnswer, PublishRequest, RequestFailure};
pub use summary::{ChangeCounts, ChangeKind, Summary, SummaryKey};
