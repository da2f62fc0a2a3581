//! GB-1 … GB-16, but for GB-11: replicas of one configuration in etcd.
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
//! | GB-5: replicas restart one by one under RPCs | [`rolling`] |
//! | GB-6: 100 publishes per second | [`rate`] |
//! | GB-7: writes of replicas to etcd | [`writes`] |
//! | GB-9: CPU of a replica per publish and per second, by the number of resources | [`cost`] |
//! | GB-10: the leader of etcd is killed under publishes | [`leader`] |
//! | GB-12: the history of etcd is discarded while a replica is cut off | [`compaction`] |
//! | GB-13: `oxds publish` of a folder with one change | [`folder`] |
//! | GB-14: `oxds wait` for all clients | [`waiting`] |
//! | GB-15: a fourth replica joins | [`joining`] |
//! | GB-16: etcd is away, and clients reconnect | [`outage`] |
//!
//! GB-11, random publishes while etcd and replicas fail, is the scenario of G-40 in `interop/`.

mod clients;
mod compaction;
mod cost;
mod death;
mod etcd;
mod fleet;
mod folder;
mod joining;
mod leader;
mod members;
mod outage;
mod ports;
mod publish;
mod quick;
mod rate;
mod rolling;
mod start;
mod text;
mod waiting;
mod watches;
mod writer;
mod writes;

use super::rig::wait;
use crate::Plan;
use crate::report::Table;

/// Ids of the scenarios of [`run`].
pub(crate) const IDS: &[&str] = &[
    "GB-1", "GB-2", "GB-3", "GB-4", "GB-5", "GB-6", "GB-7", "GB-8", "GB-9", "GB-10", "GB-12",
    "GB-13", "GB-14", "GB-15", "GB-16",
];

pub(crate) fn run(plan: &Plan, table: &mut Table) -> Result<(), String> {
    let wants = |ids: &[&str]| ids.iter().any(|id| plan.wants(id));
    wait(async {
        if wants(&["GB-1", "GB-2"]) {
            publish::run(plan, table).await?;
        }
        if wants(&["GB-3", "GB-8"]) {
            start::run(plan, table).await?;
        }
        if plan.wants("GB-4") {
            death::run(plan, table).await?;
        }
        if plan.wants("GB-5") {
            rolling::run(plan, table).await?;
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
        if plan.wants("GB-10") {
            leader::run(plan, table).await?;
        }
        if plan.wants("GB-12") {
            compaction::run(plan, table).await?;
        }
        if plan.wants("GB-13") {
            folder::run(plan, table).await?;
        }
        if plan.wants("GB-14") {
            waiting::run(plan, table).await?;
        }
        if plan.wants("GB-15") {
            joining::run(plan, table).await?;
        }
        if plan.wants("GB-16") {
            outage::run(plan, table).await?;
        }
        Ok(())
    })
}
