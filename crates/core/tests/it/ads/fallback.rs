//! C-73, C-105, C-147 – C-165: ordered servers (gRFC A71), played on the machine. Who comes back with nothing new is in
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
use super::{any, cluster};

/// `P` was down from the start, so that `F` has `a`.
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
fn c147_while_the_first_server_is_well_no_other_is_dialled() {
    let mut servers = served_by_first();
    assert_eq!(servers.watch(0, "b"), Vec::<String>::new());
    assert_eq!(servers.transmits(), ["P a,b p1"]);
    assert_eq!(servers.waits(), Vec::<String>::new());
}

#[test]
fn c148_a_server_that_is_down_at_the_start_is_replaced_by_the_next() {
    let servers = served_by_second();
    assert_eq!(servers.from("a"), "F");
}

#[test]
fn c149_with_everything_held_a_lost_server_is_a_remark_and_no_reason_to_fall_back() {
    let mut servers = served_by_first();
    // The first end says nothing: the stream had answered.
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
fn c150_c165_one_open_name_moves_all_to_the_next_server_whose_words_replace_what_is_held() {
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
fn c151_a_name_that_does_not_exist_is_answered() {
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

#[test]
fn c152_neither_the_end_of_an_answered_stream_nor_silence_is_a_failure() {
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
fn c153_a_new_name_does_not_wait_for_another_failure() {
    let mut servers = served_by_first();
    servers.fails('P');
    servers.waits();
    servers.fails('P');
    servers.events();
    assert_eq!(servers.watch(0, "b"), Vec::<String>::new(), "F may have it");
    assert_eq!(servers.transmits(), ["F open"]);
}

#[test]
fn c154_watchers_hear_of_a_failure_once_all_servers_have_failed() {
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
fn c155_c156_those_more_wanted_go_on_trying_and_are_asked_for_what_is_new() {
    let mut servers = served_by_second();
    assert_eq!(servers.watch(0, "b"), Vec::<String>::new());
    assert_eq!(servers.transmits(), ["F a,b f1"]);
    assert_eq!(servers.waits(), ["P open"]);
    assert_eq!(servers.fails('P'), Vec::<String>::new());
    assert_eq!(servers.waits(), ["P open"]);
    assert_eq!(servers.opened('P'), ["P a,b"]);
}

#[test]
fn c157_c158_an_answer_of_the_first_takes_over_and_its_connection_alone_does_not() {
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
fn c158_a_rejected_answer_is_one_too() {
    let mut servers = served_by_second();
    servers.waits();
    servers.opened('P');
    let transmits = servers.responds('P', "p1", vec![super::bad_cluster("a")]);
    assert_eq!(transmits, ["P a", "F close"]);
    assert_eq!(servers.from("a"), "F", "what is held stays in use");
}

#[test]
fn c159_the_second_of_three_lets_the_third_go_and_the_first_goes_on_trying() {
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
fn c160_what_a_server_says_late_is_not_heard() {
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
fn c161_of_two_authorities_the_one_with_an_open_name_falls_back() {
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
    // The other one has heard that its server is lost.
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
fn c162_a_server_that_is_known_to_be_lost_is_passed_over() {
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
fn c73_versions_are_a_servers_own() {
    // F was told of none of P's.
    let mut servers = fallen_back();
    servers.responds('F', "f1", vec![cluster("a", "f"), cluster("b", "f")]);
    assert_eq!(servers.waits(), ["P open"]);
    assert_eq!(servers.opened('P'), ["P a,b"], "none of F's");
    // Once let go, F begins anew.
    servers.responds('P', "p2", vec![cluster("a", "p"), cluster("b", "p")]);
    servers.watch(0, "c");
    servers.transmits();
    servers.fails('P');
    servers.waits();
    assert_eq!(servers.fails('P'), ["F open"]);
    assert_eq!(servers.opened('F'), ["F a,b,c"]);
}

#[test]
fn c105_c164_absence_is_a_deletion_only_where_that_server_had_sent_it() {
    let mut servers = fallen_back();
    servers.responds('F', "f1", vec![cluster("b", "f")]);
    assert_eq!(servers.events(), ["b: changed"], "a is only P's to delete");
    servers.responds('F', "f2", vec![]);
    let events = servers.events();
    assert!(
        events.len() == 1 && events[0].starts_with("b: error: "),
        "{events:?}"
    );
    // Back at P, its own is deleted by its absence.
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
fn c116_an_authority_without_names_asks_nobody() {
    let mut servers = served_by_second();
    servers.client.unwatch(&ResourceType::CLUSTER, "a");
    let transmits = servers.transmits();
    assert_eq!(transmits, ["F close"], "P is between two attempts");
    assert_eq!(servers.waits(), Vec::<String>::new());
}

/// given a cluster that reports its load, from P / when F, and then P again, delivers the same bytes / then each time
/// watchers have it anew, and it reports to whoever sent it; when P repeats it / then nothing is told; one that reports
/// nothing is the same, whoever sends it.
#[test]
fn c144_load_is_reported_to_whoever_delivered_the_cluster() {
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
    /// The server that a cluster's load is reported to.
    fn reports_to(&self, name: &str) -> Option<char> {
        let held = self.client.cached(&ResourceType::CLUSTER, name)?.held?;
        let cluster = held.resource.get::<Cluster>()?;
        let LrsServer::Sender(to) = cluster.lrs_server? else {
            panic!("{cluster:?} does not say to whom")
        };
        Some(self.letter(to))
    }
}
