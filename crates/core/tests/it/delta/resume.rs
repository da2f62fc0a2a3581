//! Clients that reconnect with `initial_resource_versions`: S-42, S-43.

use oxds_core::session::Config;
use oxds_types::ResourceType;

use super::{CDS, EDS, has};
use crate::support::{Stream, World};

#[test]
fn s42_wildcard_resumes_from_initial_versions() {
    for resource_type in [ResourceType::LISTENER, CDS] {
        let world = World::of(&resource_type, &["A=1", "B=2"]);
        for names in [&[][..], &["*"]] {
            let mut stream = Stream::delta();
            stream.resume(&resource_type, names, &has(&["A=1", "B=1", "X=1"]));
            let mut replies = stream.drain(&world);
            if resource_type == CDS {
                // The client may still subscribe to routes, which may refer to X (S-52).
                stream.pass(Config::default().follow_up);
                replies.extend(stream.drain(&world));
            }
            let sent = replies
                .into_iter()
                .map(|reply| (reply.resources, reply.removed));
            let (resources, removed): (Vec<_>, Vec<_>) = sent.unzip();
            assert_eq!(
                (resources.concat(), removed.concat()),
                (vec!["B=2".into()], vec!["X".into()])
            );
            assert!(stream.session.is_in_sync(&world.snapshot));
        }
    }
}

#[test]
fn s42_names_resume_from_initial_versions() {
    let world = World::of(&EDS, &["A=1", "B=2"]);
    let mut stream = Stream::delta();
    stream.resume(&EDS, &["A", "B", "X"], &has(&["A=1", "B=1", "X=1"]));
    let reply = stream.take(&world);
    assert_eq!(
        (reply.resources, reply.removed),
        (vec!["B=2".into()], vec!["X".into()])
    );
}

#[test]
fn server_restart_with_same_data_sends_no_resources() {
    let world = || World::of(&CDS, &["A=1", "B=1"]);
    let mut before = Stream::delta();
    before.change(&CDS, &[], &[]);
    let had = before.take(&world()).names;
    // Another process, the same data.
    let mut world = world();
    let mut after = Stream::delta();
    after.resume(&CDS, &[], &had);
    let reply = after.take(&world);
    assert!(
        reply.resources.is_empty() && reply.removed.is_empty(),
        "{reply:?}"
    );
    world.set(&CDS, &["B=2"]);
    assert_eq!(after.take(&world).resources, ["B=2"]);
}

#[test]
fn s43_initial_versions_alone_are_no_subscription() {
    let mut world = World::of(&EDS, &["A=1"]);
    let mut stream = Stream::delta();
    stream.resume(&EDS, &[], &has(&["A=0"]));
    stream.silent(&world);
    world.set(&EDS, &["A=2"]);
    stream.silent(&world);
}
