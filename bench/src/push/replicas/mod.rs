//! GB-1 … GB-14: replicas of one configuration in etcd.
//!
//! ```text
//!    processor 0                                processor 1
//!   ┌───────────────────┐  publish   ┌─────────────────────────────┐
//!   │ the writer        │ ─────────▶ │ etcd: three members         │
//!   │ a watch of etcd   │ ◀───────── │   │ watch                   │
//!   │ a probe or swarm  │ ◀───────── │ oxds serve × 3, or a plain  │
//!   │ per replica       │    ADS     │ Go program × 3              │
//!   └───────────────────┘            └─────────────────────────────┘
//! ```
//!
//! The writer's own watch tells when etcd has committed a publish: the figures are the time after that, so that etcd's disk does not
//! count. The plain alternative to replicas is go-control-plane with a linear cache that etcd's Go client feeds, a key per resource; it
//! has no atomic publishes, no checks and no state of replicas.
//!
//! | scenario | module |
//! |---|---|
//! | GB-1: one resource is published; GB-2: 5,000 at once | [`publish`] |
//! | GB-3: a replica starts; GB-8: its memory | [`start`] |
//! | GB-4: a replica is killed | [`death`] |
//! | GB-6: 100 publishes per second | [`rate`] |
//! | GB-7: writes of replicas to etcd | [`writes`] |
//! | GB-9: CPU of a replica per publish and per second, by the number of resources | [`cost`] |
//! | GB-13: `oxds publish` of a folder with one change | [`folder`] |
//! | GB-14: `oxds wait` for all clients | [`waiting`] |

mod cost;
mod death;
mod etcd;
mod fleet;
mod folder;
mod publish;
mod quick;
mod rate;
mod start;
mod waiting;
mod writes;

use super::rig::wait;
use crate::Plan;
use crate::report::Table;

/// Ids of the scenarios of [`run`].
pub(crate) const IDS: &[&str] = &[
    "GB-1", "GB-2", "GB-3", "GB-4", "GB-6", "GB-7", "GB-8", "GB-9", "GB-13", "GB-14",
];

pub(crate) fn run(plan: &Plan, table: &mut Table) -> Result<(), String> {
    wait(async {
        if ["GB-1", "GB-2"].iter().any(|id| plan.wants(id)) {
            publish::run(plan, table).await?;
        }
        if ["GB-3", "GB-8"].iter().any(|id| plan.wants(id)) {
            start::run(plan, table).await?;
        }
        if plan.wants("GB-4") {
            death::run(plan, table).await?;
        }
        if plan.wants("GB-6") {
            rate::run(plan, table).await?;
        }
        if plan.wants("GB-7") {
            writes::run(plan, table).await?;
        }
        if plan.wants("GB-9") {
            cost::run(plan, table).await?;
        }
        if plan.wants("GB-13") {
            folder::run(plan, table).await?;
        }
        if plan.wants("GB-14") {
            waiting::run(plan, table).await?;
        }
        Ok(())
    })
}
