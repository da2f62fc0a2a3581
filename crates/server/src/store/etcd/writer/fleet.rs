//! Reads of the status of all replicas, as `oxds status --etcd` and `oxds wait --etcd` do.

use oxds_etcd::Prefix;
use oxds_etcd::fleet::{Fleet, LaneScan};

use super::super::client::EtcdError;
use super::session::Session;

/// Reads the heads of all lanes and their rollbacks, then the statuses of all replicas. The cost does not depend on the
/// number of resources.
///
/// # Errors
/// Those of a connection and of a read. The next attempt goes to another member if this one is to blame.
///
/// # Cancel safety
/// Dropping the future ends the read; the session can be used again.
pub async fn read_fleet(session: &mut Session, prefix: &Prefix) -> Result<Fleet, EtcdError> {
    let mut scan = LaneScan::new(prefix.clone());
    let lanes = loop {
        let answer = session.range(scan.request()).await?;
        if let Some(lanes) = scan.take(&answer) {
            break lanes;
        }
    };
    let mut fleet = Fleet::default();
    for lane in lanes {
        let answer = session.range(Fleet::head_request(prefix, &lane)).await?;
        let request = Fleet::rollbacks_request(prefix, &lane);
        fleet.add_rollbacks(prefix, &session.range(request).await?);
        fleet.add_head(lane, &answer);
    }
    let statuses = session.range(prefix.statuses().request()).await?;
    fleet.add_statuses(prefix, &statuses.kvs);
    Ok(fleet)
}
