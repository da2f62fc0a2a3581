//! Leases: granted, renewed, ended.

use std::time::Duration;

use oxds_server::store::etcd::client::Reason;
use oxds_testkit::etcd::ScriptedEtcd;
use oxds_types::etcd::{LeaseGrantRequest, LeaseRevokeRequest, PutRequest};

use super::{connect, put};

const GRANT: LeaseGrantRequest = LeaseGrantRequest { ttl: 10, id: 0 };

#[tokio::test]
async fn g37_leased_key_ends_with_its_lease() {
    let etcd = ScriptedEtcd::start().await.unwrap();
    let client = connect(&etcd).await;
    let lease = client.lease_grant(GRANT).await.unwrap().id;
    let leased = |key| PutRequest {
        lease,
        ..put(key, "alive")
    };
    client.put(leased("x/1")).await.unwrap();
    let mut keeper = client.lease_keeper(lease).await.unwrap();
    assert_eq!(keeper.renew().await.unwrap(), Duration::from_secs(10));

    assert!(etcd.end_lease(lease));

    assert!(etcd.get(b"x/1").is_none());
    let error = keeper.renew().await.unwrap_err();
    assert_eq!(error.reason(), &Reason::LeaseNotFound);
    let error = client.put(leased("x/2")).await.unwrap_err();
    assert_eq!(error.reason(), &Reason::LeaseNotFound);
    let error = client.lease_keeper(lease).await.unwrap_err();
    assert_eq!(error.reason(), &Reason::LeaseNotFound);
}

#[tokio::test]
async fn g37_revoked_lease_takes_its_keys_at_one_revision() {
    let etcd = ScriptedEtcd::start().await.unwrap();
    let client = connect(&etcd).await;
    let lease = client.lease_grant(GRANT).await.unwrap().id;
    for key in ["x/1", "x/2"] {
        client
            .put(PutRequest {
                lease,
                ..put(key, "alive")
            })
            .await
            .unwrap();
    }
    let before = etcd.revision();
    client
        .lease_revoke(LeaseRevokeRequest { id: lease })
        .await
        .unwrap();
    assert_eq!(etcd.revision(), before + 1);
    assert!(etcd.get(b"x/1").is_none() && etcd.get(b"x/2").is_none());
    let error = client
        .lease_revoke(LeaseRevokeRequest { id: lease })
        .await
        .unwrap_err();
    assert_eq!(error.reason(), &Reason::LeaseNotFound);
}

/// With tokio's clock stopped, time passes only while all tasks wait.
#[tokio::test(start_paused = true)]
async fn g37_lease_without_renewal_ends_by_itself() {
    let etcd = ScriptedEtcd::start().await.unwrap();
    let started = tokio::time::Instant::now();
    let lease = etcd.grant(10);
    let leased = PutRequest {
        lease,
        ..put("x/1", "alive")
    };
    etcd.txn(&oxds_types::etcd::TxnRequest {
        success: vec![super::operation(oxds_types::etcd::Request::Put(leased))],
        ..Default::default()
    })
    .unwrap();
    while etcd.get(b"x/1").is_some() {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(started.elapsed() < Duration::from_secs(60));
    }
    assert!(started.elapsed() >= Duration::from_secs(10));
}
