//! The client of etcd against released etcds: the current one, and 3.4 at its end of life.

mod calls;
mod cluster;
mod full;
mod messages;
mod replicas;
mod same_answers;
mod security;
mod shared;
mod watches;

use super::{SOON, Scenario};
use crate::peers::etcd::Release;

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut all = messages::scenarios();
    for release in Release::BOTH {
        all.extend(calls::scenarios(release));
        all.extend(watches::scenarios(release));
        all.extend(full::scenarios(release));
        all.extend(security::scenarios(release));
        all.extend(cluster::scenarios(release));
        all.extend(replicas::scenarios(release));
        all.extend(same_answers::scenarios(release));
    }
    all
}
