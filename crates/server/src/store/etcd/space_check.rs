//! The check of the space in etcd: how full the database of the member is that the replica uses (G-26).
//!
//! ```text
//!  client of the driver ──▶ Status, at once and every minute ──▶ finding; size for status and metrics
//! ```
//!
//! A failure is no news here: the follower reports it.

use std::time::Duration;

use oxds_etcd::{Space, SpaceLevel};
use tokio::sync::watch;
use tokio::time::sleep;

use super::client::EtcdClient;
use crate::store::finding::Finding;
use crate::store::link::ServerLink;

/// Time after an attempt that failed.
const RETRY: Duration = Duration::from_secs(5);

/// The check.
pub(super) struct SpaceCheck {
    pub(super) client: watch::Receiver<Option<EtcdClient>>,
    pub(super) interval: Duration,
    pub(super) space: watch::Sender<Option<Space>>,
    /// Server that shows the finding.
    pub(super) link: ServerLink,
}

impl SpaceCheck {
    /// Checks until the driver ends.
    pub(super) async fn run(mut self) {
        loop {
            let client = self.client.borrow_and_update().clone();
            let wait = async {
                let Some(client) = client else {
                    return std::future::pending().await;
                };
                let pause = match client.status().await {
                    Ok(status) => {
                        self.report(Space::of(&status), client.member());
                        self.interval
                    }
                    Err(_) => RETRY.min(self.interval),
                };
                sleep(pause).await;
            };
            let mut clients = self.client.clone();
            tokio::select! {
                () = wait => {}
                changed = clients.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Shows the size, and the warning if there is one.
    fn report(&self, space: Space, member: &str) {
        self.space.send_replace(Some(space));
        let findings = finding(space, member).into_iter().collect();
        self.link.report_findings("space of etcd", findings);
    }
}

/// Returns the warning of a member's space, if it is scarce (G-26).
pub(super) fn finding(space: Space, member: &str) -> Option<Finding> {
    let warns = space.level() != SpaceLevel::Enough;
    warns.then(|| Finding {
        rule: "space",
        ..Finding::warning(format!("etcd:{member}"), space.to_string())
    })
}
