//! Rollbacks of several replicas together: one decision for all (G-38).
//!
//! ```text
//!           own NACK, or a report of another replica          own answer written
//!  (nothing) ─────────────────────────────────────▶ open ────────────────────────▶ answered
//!      ▲                                              │                                │ more nodes than the threshold, in sum
//!      │ the lane has another version                 │                                ▼
//!      ├──────────────────────────────────────────────┴─────── a replica is silent,  counted
//!      │                                                        lacks the version,     │ all live replicas have answered, and
//!      │                                                        or disagrees:          │ those with clients agree: compare-and-swap
//!      │                                                        reported  ◀────────────┤
//!      └──────────────────────────────────────────────────────────────────────────── decided
//! ```
//!
//! Each replica writes under `n/` how many nodes NACKed a version, and which change its clients had accepted before.
//! One key `w/<lane>/<place>` has the decision with the bytes to serve; it is created by compare-and-swap on itself and
//! on the head, so it exists once, and only for what is published. All replicas follow it, also those that start later,
//! while the lane has the NACKed versions.
//!
//! | module | content |
//! |---|---|
//! | `report` | values under `n/` |
//! | [`decision`] | values under `w/` |
//! | [`reports`] | all reports and decisions in the store |
//! | [`change`] | what a replica knows about a change by itself |
//! | [`fleet_rollback`] | the machine |

pub mod change;
pub mod decision;
pub mod fleet_rollback;
pub mod nodes;
mod report;
pub mod reports;

pub use change::{Opinion, Trial, TrialPart};
pub use decision::{Decision, DecisionPart};
pub use fleet_rollback::{FleetRollback, LocalChanges, Obstacle, ObstacleKind, Published, Write};
pub use nodes::NackingNodes;
pub use report::{Good, NackReport};
pub use reports::Reports;
