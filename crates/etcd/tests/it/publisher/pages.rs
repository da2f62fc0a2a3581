//! Pages that contradict their requests: nothing may be decided by what was read (G-21).

use oxds_etcd::publisher::{Foreign, PublishAnswer, PublishError, PublishOptions, PublishRequest};
use oxds_types::etcd::{RangeResponse, ResponseHeader};

use super::history::{chain, latest, staged_keys};
use super::rig::{
    Fault, State, Writer, folder, lane, large, limited, many, options, publish_limited, send,
    state_of,
};
use crate::model::Etcd;

/// Error about a page, and the change of the page that leads to it.
type PageFault = (&'static str, fn(&mut RangeResponse));

/// Changes of a page by a faulty etcd.
const FAULTS: [PageFault; 4] = [
    ("an empty page is not the last one", |page| {
        page.kvs.clear();
        page.more = true;
    }),
    ("not in the requested order", |page| {
        let first = page.kvs.first().cloned();
        page.kvs.extend(first);
    }),
    ("a key of a later revision", |page| {
        for kv in &mut page.kvs {
            kv.mod_revision += 1_000_000;
        }
    }),
    ("a page has no header", |page| page.header = None),
];

/// Store with a large publish whose writer was killed after the commit, and its state.
fn killed_after_commit() -> (Etcd, State) {
    let mut etcd = Etcd::default();
    publish_limited(&mut etcd, 1, folder([("before", "1")]));
    let mut writer = Writer::new(limited(2), large());
    while latest(&etcd, &lane("main")).0.seq == 1 {
        writer.step(&mut etcd, Fault::None);
    }
    etcd.expire();
    let mut state = state_of(&folder([("before", "1")]));
    state.extend(state_of(&large()));
    (etcd, state)
}

/// Runs a writer, and changes the pages of the range reads for which `is_faulty` holds.
fn run(
    etcd: &mut Etcd,
    mut writer: Writer,
    mut is_faulty: impl FnMut(usize) -> bool,
    fault: fn(&mut RangeResponse),
) -> Writer {
    let mut reads = 0;
    while let Some(request) = writer.next_request() {
        let is_page = matches!(&request, PublishRequest::Range(range) if range.limit > 0);
        reads += usize::from(is_page);
        let mut answer = match send(etcd, request) {
            Ok(answer) => answer,
            Err(error) => panic!("{error:?}"),
        };
        if let PublishAnswer::Range(page) = &mut answer
            && is_page
            && is_faulty(reads)
        {
            fault(page);
        }
        writer.take(Ok(answer));
    }
    writer
}

#[test]
fn g21_completion_refuses_pages_that_lack_keys() {
    for (reason, fault) in FAULTS {
        // Given a large publish that its writer did not complete, when another one reads a faulty page of its stage:
        let (mut etcd, state) = killed_after_commit();
        let next = Writer::new(limited(3), folder([("after", "1")]));
        let next = run(&mut etcd, next, |read| read == 1, fault);
        // Then it fails with the reason, and the published state is whole: the head names the stage still.
        let error = next.error().to_string();
        assert!(error.contains(reason), "{error}");
        assert!(latest(&etcd, &lane("main")).1 == state, "{reason}");
        // And the next writer completes the publish.
        publish_limited(&mut etcd, 4, folder([("after", "1")]));
        assert_eq!(staged_keys(&etcd), 0, "{reason}");
        assert_eq!(chain(&etcd, &lane("main")).len(), 3);
    }
}

#[test]
fn g21_publish_refuses_faulty_pages_of_lanes_and_history() {
    let repair = PublishOptions {
        foreign: Foreign::Repair,
        ..options(3)
    };
    for (reason, fault) in FAULTS {
        for read in [1, 2] {
            // Given keys that were changed by hand, so that the published state is read, too:
            let mut etcd = Etcd::default();
            publish_limited(&mut etcd, 1, folder([("a", "1"), ("b", "1")]));
            etcd.delete("/oxds/default/l/main/r/envoy.config.cluster.v3.Cluster/a");
            let revision = etcd.revision();
            // When a page of the first or of the second read is faulty, then nothing is written.
            let writer = Writer::new(repair.clone(), folder([("c", "1")]));
            let writer = run(&mut etcd, writer, |at| at == read, fault);
            match writer.error() {
                PublishError::Etcd(why) => assert!(why.contains(reason), "{why}"),
                other => panic!("{reason}: {other:?}"),
            }
            assert_eq!(etcd.revision(), revision, "{reason}");
        }
    }
}

#[test]
fn g29_publish_refuses_pages_of_another_cluster() {
    // Given a lane of several pages, when the second one comes from another cluster, then nothing is written.
    let mut etcd = Etcd::default();
    publish_limited(&mut etcd, 1, many(100, "1"));
    let revision = etcd.revision();
    let other = |page: &mut RangeResponse| {
        if let Some(header) = &mut page.header {
            *header = ResponseHeader {
                cluster_id: header.cluster_id + 1,
                ..*header
            };
        }
    };
    let writer = Writer::new(options(2), folder([("a", "1")]));
    let writer = run(&mut etcd, writer, |read| read == 2, other);
    let error = writer.error().to_string();
    assert!(error.contains("different clusters"), "{error}");
    assert_eq!(etcd.revision(), revision);
}
