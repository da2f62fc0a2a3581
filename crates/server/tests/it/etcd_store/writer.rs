//! The driver of a publish: what is published is made while etcd is read (G-12).

use std::future::{Future, ready};
use std::time::Duration;

use oxds_etcd::publisher::{PublishError, PublishOutcome, Wanted};
use oxds_server::store::etcd::writer::{self, Session};
use oxds_testkit::etcd::ScriptedEtcd;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::publishing::{Writer, entry_of, publish, resource};
use super::{etcd, options};
use crate::SOON;

/// Publishes what this makes, and returns how that ended.
async fn publish_made(
    etcd: &ScriptedEtcd,
    wanted: impl Future<Output = Option<Wanted>>,
) -> Result<PublishOutcome, PublishError> {
    let to = options(&[etcd]);
    let mut session = Session::new(to.endpoints, to.client);
    let options = Writer::of_lane("main").options;
    let published = writer::publish(&mut session, options, wanted, |_| true, |_| ());
    timeout(SOON, published).await.expect("it ends")
}

/// Returns a cluster as what is wanted.
fn wanted(name: &str) -> Wanted {
    let (entry, stored) = entry_of(&resource(name, "1"));
    Wanted::Changes([(entry, Some(stored))].into())
}

/// given a state that is made only when etcd was read / when it is published / then the publish ends, and reads once.
#[tokio::test]
async fn g12_etcd_is_read_while_the_state_is_made() {
    let (etcd, _) = etcd().await;
    publish(&etcd, &[("a", "1")]).await;
    let reads = etcd.calls("Range");
    let made = async {
        let has_read = etcd.reach(|activity| activity.calls["Range"] > reads).await;
        has_read.unwrap();
        Some(wanted("b"))
    };
    let outcome = publish_made(&etcd, made).await;
    assert!(
        matches!(outcome, Ok(PublishOutcome::Published { seq: 2, .. })),
        "{outcome:?}"
    );
    assert_eq!(etcd.calls("Range"), reads + 1);
}

/// given an etcd that does not answer / when the state turns out to be invalid / then the publish ends at once, and
/// says so.
#[tokio::test]
async fn g12_invalid_state_needs_no_answer_of_etcd() {
    let (etcd, _) = etcd().await;
    etcd.set_silent(true);
    let made = async {
        let is_connected = etcd.reach(|activity| activity.accepted > 0).await;
        is_connected.unwrap();
        None
    };
    assert_eq!(publish_made(&etcd, made).await, Err(PublishError::Invalid));
}

/// given an etcd that is given up before the state is made / when the state is invalid, and when it is valid / then the
/// first is an invalid state, and the second the failure of etcd.
#[tokio::test]
async fn g12_invalid_state_comes_before_an_error_of_etcd() {
    let (etcd, _) = etcd().await;
    etcd.kill();
    for made in [None, Some(wanted("a"))] {
        let is_invalid = made.is_none();
        let to = options(&[&etcd]);
        let mut session = Session::new(to.endpoints, to.client);
        let mut options = Writer::of_lane("main").options;
        options.give_up_after = Duration::ZERO;
        let has_failed = Notify::new();
        let made = async {
            has_failed.notified().await;
            made
        };
        let notice = |_| has_failed.notify_one();
        let published = writer::publish(&mut session, options, made, |_| true, notice);
        let outcome = timeout(SOON, published).await.expect("it ends");
        if is_invalid {
            assert_eq!(outcome, Err(PublishError::Invalid));
        } else {
            assert!(matches!(outcome, Err(PublishError::Etcd(_))), "{outcome:?}");
        }
    }
}

/// given a resource above the request limit / when it is published / then etcd is not asked.
#[tokio::test]
async fn g9_too_large_resource_asks_etcd_for_nothing() {
    let (etcd, _) = etcd().await;
    let to = options(&[&etcd]);
    let mut session = Session::new(to.endpoints, to.client);
    let mut options = Writer::of_lane("main").options;
    options.request_limit = 10;
    let made = ready(Some(wanted("a")));
    let outcome = writer::publish(&mut session, options, made, |_| true, |_| ()).await;
    assert!(
        matches!(outcome, Err(PublishError::TooLarge { .. })),
        "{outcome:?}"
    );
    assert!(etcd.activity().calls.is_empty());
}
