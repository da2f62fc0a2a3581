//! C-73, C-105, C-147 – C-165: fallback between servers (gRFC A71). For servers that return without changes see
//! `returning`.

use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3::Cluster as ClusterProto;
use envoy_types::pb::envoy::config::core::v3::{
    ConfigSource, SelfConfigSource, config_source::ConfigSourceSpecifier,
};
use oxds_core::ads::CacheState;
use oxds_core::resource::{Cluster, LrsServer};
use oxds_types::ResourceType;
use oxds_types::discovery::Any;
use prost::Message;

use super::servers::{Servers, fallen_back, served_by_first};
use super::{any, bad_cluster, cluster};

/// `P` was down from the start, so that `F` sent `a`.
fn served_by_second() -> Servers {
    let mut servers = Servers::new(&["PF"]);
    servers.watch(0, "a");
    servers.transmits();
    assert_eq!(servers.fails('P'), ["F open"]);
    assert_eq!(servers.opened('F'), ["F a"]);
    servers.responds('F', "f1", vec![cluster("a", "f")]);
    assert_eq!(servers.events(), ["a: changed"], "and no word of P");
    servers
}

#[test]
fn c147_healthy_first_server_is_the_only_one_asked() {
    let mut servers = served_by_first();
    assert_eq!(servers.watch(0, "b"), Vec::<String>::new());
    assert_eq!(servers.transmits(), ["P a,b p1"]);
    assert_eq!(servers.waits(), Vec::<String>::new());
}

#[test]
fn c148_server_down_at_start_falls_back() {
    let servers = served_by_second();
    assert_eq!(servers.from("a"), "F");
}

#[test]
fn c149_all_cached_lost_server_is_ambient_without_fallback() {
    let mut servers = served_by_first();
    // The end of the first stream does not count as a failure: it was answered.
    assert_eq!(servers.fails('P'), Vec::<String>::new());
    assert_eq!(servers.waits(), ["P open"]);
    assert_eq!(servers.fails('P'), Vec::<String>::new());
    let events = servers.events();
    assert!(
        events.len() == 1 && events[0].starts_with("a: ambient: "),
        "{events:?}"
    );
    assert_eq!(servers.from("a"), "P");
}

#[test]
fn c150_c165_unanswered_name_falls_back_for_all_names() {
    let mut servers = served_by_first();
    servers.watch(0, "b");
    servers.transmits();
    servers.fails('P');
    servers.waits();
    assert_eq!(servers.fails('P'), ["F open"]);
    assert_eq!(servers.opened('F'), ["F a,b"]);
    assert_eq!(servers.from("a"), "P", "until F has answered");
    servers.responds('F', "f1", vec![cluster("a", "f"), cluster("b", "f")]);
    assert_eq!(servers.events(), ["a: changed", "b: changed"]);
    assert_eq!(
        (servers.from("a"), servers.from("b")),
        ("F".into(), "F".into())
    );
}

#[test]
fn c151_missing_resource_counts_as_answered() {
    let mut servers = served_by_first();
    servers.watch(0, "gone");
    servers.transmits();
    servers.waits();
    assert_eq!(servers.events().len(), 1, "silence for 15 s");
    let gone = servers
        .client
        .cached(&ResourceType::CLUSTER, "gone")
        .unwrap();
    assert_eq!(gone.state, CacheState::DoesNotExist);
    servers.fails('P');
    servers.waits();
    assert_eq!(servers.fails('P'), Vec::<String>::new());
}

/// Given watches of all clusters and of `a`, and a server that has no `a`. When the watcher of `a` leaves, then nothing
/// is kept for `a`; when the server fails, then the client does not fall back because of `a`.
#[test]
fn unwatched_name_without_resource_causes_no_fallback() {
    let mut servers = Servers::of_differences(&["PF"]);
    servers.watch(0, "*");
    servers.watch(0, "a");
    assert_eq!(servers.transmits(), ["P open"]);
    assert_eq!(servers.opened('P'), ["P +*,a"]);
    assert_eq!(servers.sends('P', &[("b", "1")]), ["P ok"]);
    assert_eq!(servers.events(), ["b: changed"], "and no word of a");

    servers.client.unwatch(&ResourceType::CLUSTER, "a");
    assert_eq!(servers.transmits().len(), 1, "a is unsubscribed");
    let resources = servers.client.resources();
    let names: Vec<_> = resources.map(|(_, name, _)| &**name).collect();
    assert_eq!(names, ["b"]);

    // The end of the first stream does not count as a failure: it was answered.
    assert_eq!(servers.fails('P'), Vec::<String>::new());
    assert_eq!(servers.waits(), ["P open"]);
    assert_eq!(servers.fails('P'), Vec::<String>::new());
    let events = servers.events();
    assert!(
        events.iter().all(|event| !event.starts_with('a')),
        "{events:?}"
    );
}

#[test]
fn c152_answered_stream_end_or_timeout_is_no_failure() {
    let mut servers = served_by_first();
    servers.watch(0, "b");
    servers.transmits();
    assert_eq!(servers.fails('P'), Vec::<String>::new(), "it had answered");
    assert_eq!(servers.waits(), ["P open"]);
    assert_eq!(servers.opened('P'), ["P a,b p1"]);
    servers.now += Duration::from_secs(15);
    servers.client.handle_timeout(servers.now);
    assert_eq!(servers.transmits(), Vec::<String>::new());
    let events = servers.events();
    assert!(events[0].contains("no answer within 15 s"), "{events:?}");
}

#[test]
fn c153_new_name_falls_back_at_once() {
    let mut servers = served_by_first();
    servers.fails('P');
    servers.waits();
    servers.fails('P');
    servers.events();
    assert_eq!(servers.watch(0, "b"), Vec::<String>::new(), "F may have it");
    assert_eq!(servers.transmits(), ["F open"]);
}

#[test]
fn c154_watchers_get_error_after_last_server_failed() {
    let mut servers = Servers::new(&["PMF"]);
    servers.watch(0, "a");
    servers.transmits();
    assert_eq!(servers.fails('P'), ["M open"]);
    assert_eq!(servers.fails('M'), ["F open"]);
    assert!(servers.events().is_empty());
    assert_eq!(servers.fails('F'), Vec::<String>::new());
    let events = servers.events();
    assert!(
        events.len() == 1 && events[0].contains("F is down"),
        "{events:?}"
    );
    let late = servers.watch(0, "b");
    assert!(late.len() == 1 && late[0].contains("F is down"), "{late:?}");
}

#[test]
fn c155_c156_higher_servers_retry_with_new_subscriptions() {
    let mut servers = served_by_second();
    assert_eq!(servers.watch(0, "b"), Vec::<String>::new());
    assert_eq!(servers.transmits(), ["F a,b f1"]);
    assert_eq!(servers.waits(), ["P open"]);
    assert_eq!(servers.fails('P'), Vec::<String>::new());
    assert_eq!(servers.waits(), ["P open"]);
    assert_eq!(servers.opened('P'), ["P a,b"]);
}

#[test]
fn c157_c158_response_not_connection_takes_over() {
    let mut servers = served_by_second();
    servers.waits();
    servers.opened('P');
    servers.responds('F', "f2", vec![cluster("a", "f2")]);
    assert_eq!(servers.from("a"), "F", "it is still its word that counts");
    let transmits = servers.responds('P', "p1", vec![cluster("a", "p")]);
    assert_eq!(transmits, ["P a p1", "F close"]);
    assert_eq!(servers.from("a"), "P");
    assert_eq!(servers.events(), ["a: changed", "a: changed"]);
}

#[test]
fn c158_nacked_response_takes_over_if_it_has_a_valid_resource() {
    let mut servers = served_by_second();
    servers.waits();
    servers.opened('P');
    let clusters = vec![bad_cluster("a"), cluster("unasked", "p")];
    assert_eq!(servers.responds('P', "p1", clusters), ["P a", "F close"]);
    assert_eq!(servers.from("a"), "F", "what is held stays in use");
}

#[test]
fn c159_second_server_releases_third_and_first_retries() {
    let mut servers = Servers::new(&["PMF"]);
    servers.watch(0, "a");
    servers.transmits();
    servers.fails('P');
    servers.fails('M');
    servers.opened('F');
    servers.responds('F', "f1", vec![cluster("a", "f")]);
    assert_eq!(servers.waits(), ["P open", "M open"]);
    servers.fails('P');
    servers.opened('M');
    let transmits = servers.responds('M', "m1", vec![cluster("a", "m")]);
    assert_eq!(transmits, ["M a m1", "F close"]);
    assert_eq!(servers.waits(), ["P open"]);
    servers.opened('P');
    let transmits = servers.responds('P', "p1", vec![cluster("a", "p")]);
    assert_eq!(transmits, ["P a p1", "M close"]);
}

#[test]
fn c160_late_response_is_ignored() {
    let mut servers = served_by_second();
    servers.waits();
    servers.opened('P');
    servers.responds('P', "p1", vec![cluster("a", "p")]);
    servers.events();
    let transmits = servers.responds('F', "f2", vec![cluster("a", "late")]);
    assert_eq!(transmits, Vec::<String>::new());
    assert!(servers.events().is_empty());
    assert_eq!(servers.from("a"), "P");
}

#[test]
fn c161_only_authority_with_unanswered_name_falls_back() {
    let mut servers = Servers::new(&["PF", "PG"]);
    servers.watch(0, "a");
    servers.transmits();
    servers.opened('P');
    servers.responds('P', "p1", vec![cluster("a", "p")]);
    servers.watch(1, "b");
    assert_eq!(servers.transmits(), ["P a,b p1"]);
    servers.fails('P');
    servers.waits();
    assert_eq!(servers.fails('P'), ["G open"]);
    assert_eq!(servers.opened('G'), ["G b"]);
    // The other authority got the error that its server is lost.
    let events = servers.events();
    assert!(
        events.iter().any(|event| event.starts_with("a: changed"))
            && events.iter().any(|event| event.starts_with("a: ambient")),
        "{events:?}"
    );
    assert!(!events.iter().any(|event| event.starts_with("b")));
    assert_eq!(servers.waits(), ["P open"]);
}

#[test]
fn c162_known_unreachable_server_is_skipped() {
    let mut servers = Servers::new(&["PMF", "M"]);
    servers.watch(1, "b");
    servers.transmits();
    servers.fails('M');
    servers.events();
    servers.watch(0, "a");
    assert_eq!(servers.transmits(), ["P open"]);
    assert_eq!(servers.fails('P'), ["F open"]);
    assert_eq!(servers.waits(), ["P open", "M open"]);
    assert_eq!(servers.opened('M'), ["M a,b"]);
}

#[test]
fn c73_versions_are_kept_per_server() {
    // F got none of the versions of P.
    let mut servers = fallen_back();
    servers.responds('F', "f1", vec![cluster("a", "f"), cluster("b", "f")]);
    assert_eq!(servers.waits(), ["P open"]);
    assert_eq!(servers.opened('P'), ["P a,b"], "none of F's");
    // After its release, F starts without versions.
    servers.responds('P', "p2", vec![cluster("a", "p"), cluster("b", "p")]);
    servers.watch(0, "c");
    servers.transmits();
    servers.fails('P');
    servers.waits();
    assert_eq!(servers.fails('P'), ["F open"]);
    assert_eq!(servers.opened('F'), ["F a,b,c"]);
}

#[test]
fn c105_c164_absence_deletes_only_what_the_server_sent() {
    let mut servers = fallen_back();
    servers.responds('F', "f1", vec![cluster("b", "f")]);
    assert_eq!(servers.events(), ["b: changed"], "a is only P's to delete");
    servers.responds('F', "f2", vec![]);
    let events = servers.events();
    assert!(
        events.len() == 1 && events[0].starts_with("b: error: "),
        "{events:?}"
    );
    // Back at P, its own resource is deleted by absence.
    servers.waits();
    servers.opened('P');
    servers.responds('P', "p2", vec![cluster("b", "p")]);
    let events = servers.events();
    assert!(
        events.len() == 2
            && events
                .iter()
                .any(|event| event.contains("the server deleted it")),
        "{events:?}"
    );
}

#[test]
fn c116_authority_without_names_asks_no_server() {
    let mut servers = served_by_second();
    servers.client.unwatch(&ResourceType::CLUSTER, "a");
    let transmits = servers.transmits();
    assert_eq!(transmits, ["F close"], "P is between two attempts");
    assert_eq!(servers.waits(), Vec::<String>::new());
}

/// Given a cluster with load reports, sent by P. When F, and then P again, sends the same bytes, then each time
/// watchers get the cluster again, and its load is reported to the sender. When P repeats it, then no event follows. A
/// cluster without load reports is the same from every server.
#[test]
fn c144_load_is_reported_to_the_sender_of_the_cluster() {
    let mut servers = Servers::new(&["PF"]);
    let clusters = || vec![reporting_cluster("a"), cluster("q", ""), cluster("new", "")];
    servers.watch(0, "a");
    servers.watch(0, "q");
    servers.transmits();
    servers.opened('P');
    servers.responds('P', "1", clusters());
    assert_eq!(servers.events(), ["a: changed", "q: changed"]);
    assert_eq!(servers.reports_to("a"), Some('P'));

    servers.fails('P');
    servers.waits();
    servers.fails('P');
    servers.watch(0, "new");
    servers.transmits();
    servers.opened('F');
    servers.events();
    servers.responds('F', "9", clusters());
    assert_eq!(
        servers.events(),
        ["a: changed", "q: current", "new: changed"]
    );
    assert_eq!(servers.reports_to("a"), Some('F'));
    assert_eq!(servers.reports_to("q"), None);

    servers.waits();
    servers.opened('P');
    servers.responds('P', "2", clusters());
    assert_eq!(servers.events(), ["a: changed"]);
    assert_eq!(servers.reports_to("a"), Some('P'));
    servers.responds('P', "3", clusters());
    assert_eq!(servers.events(), Vec::<String>::new());
}

fn reporting_cluster(name: &str) -> Any {
    let mut proto = ClusterProto::decode(&*cluster(name, "").value).unwrap();
    proto.lrs_server = Some(ConfigSource {
        config_source_specifier: Some(ConfigSourceSpecifier::Self_(SelfConfigSource::default())),
        ..ConfigSource::default()
    });
    any(&ResourceType::CLUSTER, &proto)
}

impl Servers {
    /// The server that gets the load reports of a cluster.
    fn reports_to(&self, name: &str) -> Option<char> {
        let held = self.client.cached(&ResourceType::CLUSTER, name)?.held?;
        let cluster = held.resource.get::<Cluster>()?;
        let LrsServer::Sender(to) = cluster.lrs_server? else {
            panic!("{cluster:?} does not say to whom")
        };
        Some(self.letter(to))
    }
}

/// Given an F in use. When P sends nothing that can be used, then fallback goes on, and the resources of F are not
/// touched. When P sends a resource, then fallback ends (D8).
#[test]
fn c158_useless_response_does_not_end_fallback() {
    let mut servers = fallen_back();
    let both = vec![cluster("a", "f"), cluster("b", "f")];
    servers.responds('F', "f1", both);
    servers.waits();
    servers.opened('P');
    servers.events();
    let nack = servers.responds('P', "p2", vec![bad_cluster("a")]);
    assert_eq!(nack, ["P a,b"], "a NACK, and F stays");
    assert!(servers.events().is_empty(), "a is F's, and valid");
    servers.responds_of(&ResourceType::RUNTIME, 'P', "r1", vec![]);
    assert_eq!(
        (servers.from("a"), servers.from("b")),
        ("F".into(), "F".into())
    );
    let id = servers.id('P');
    assert_eq!(servers.client.is_connected(id), Some(true));
    // F still deletes, and P's silence about b does not.
    assert_eq!(
        servers.responds('F', "f2", vec![cluster("a", "f")]),
        ["F a,b f2"]
    );
    assert!(servers.events()[0].starts_with("b: error: "));
    let some = vec![cluster("a", "p"), bad_cluster("b")];
    assert_eq!(servers.responds('P', "p3", some), ["P a,b", "F close"]);
    assert_eq!(servers.from("a"), "P");
}

/// Given an F that two authorities share. When one of them returns to P, and falls back again, then F gets no version:
/// the client has dropped F's resources of that authority.
#[test]
fn shared_fallback_server_gets_no_version_of_dropped_names() {
    let mut servers = Servers::new(&["PF", "F"]);
    servers.watch(0, "a");
    servers.watch(1, "z");
    assert_eq!(servers.transmits(), ["P open", "F open"]);
    servers.opened('F');
    servers.responds('F', "f1", vec![cluster("z", "f")]);
    assert_eq!(servers.fails('P'), ["F a,z f1"]);
    let both = vec![cluster("a", "f"), cluster("z", "f")];
    servers.responds('F', "f1", both);
    assert_eq!(servers.waits(), ["P open"]);
    servers.opened('P');
    let transmits = servers.responds('P', "p1", vec![cluster("a", "p")]);
    assert_eq!(transmits, ["P a p1", "F z f1"]);
    // when P is gone, and a name has no answer
    servers.watch(0, "b");
    servers.transmits();
    servers.fails('P');
    servers.waits();
    assert_eq!(servers.fails('P'), ["F a,b,z"]);
}
