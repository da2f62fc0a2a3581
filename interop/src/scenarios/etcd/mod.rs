//! The client of etcd, replicas and writers against released etcds: the current one, and 3.4 at its end of life.

mod access;
mod away;
mod calls;
mod cluster;
mod foreign_keys;
mod full;
mod history;
mod joined;
mod killed;
mod messages;
mod replicas;
mod restored;
mod rollback;
mod same_answers;
mod security;
mod shared;
mod sizes;
mod slow;
mod watches;
mod writers;

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
        all.extend(sizes::scenarios(release));
        all.extend(killed::scenarios(release));
        all.extend(writers::scenarios(release));
        all.extend(away::scenarios(release));
        all.extend(restored::scenarios(release));
        all.extend(foreign_keys::scenarios(release));
        all.extend(slow::scenarios(release));
        all.extend(access::scenarios(release));
        all.extend(rollback::scenarios(release));
        all.extend(joined::scenarios(release));
        all.extend(history::scenarios(release));
    }
    all
}
